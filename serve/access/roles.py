"""What people may do of whom somebody else says who they are: their roles there, and the scopes of these here."""

from collections.abc import Iterable, Mapping, Sequence

from demur.serve.access.names import as_name
from demur.serve.access.sessions import LoggedInPerson, LoginRefused
from demur.serve.config.access import Scope


def person_of(
    name: object, roles: Iterable[str], granted: Mapping[str, Sequence[Scope]], everyone: Sequence[Scope]
) -> LoggedInPerson:
    """The person with the scopes of their roles; raises `LoginRefused` where that is nobody, or may nothing here."""
    known = as_name(name) if isinstance(name, str) else None
    if known is None:
        raise LoginRefused(
            "it was not said who you are; the configuration of `access` names the claim or header with it"
        )
    scopes = dict.fromkeys(everyone)
    for role in roles:
        scopes.update(dict.fromkeys(granted.get(role, ())))
    if not scopes:
        raise LoginRefused(
            f"{known} is known, and may nothing here; the configuration of `access` gives roles their scopes"
        )
    return LoggedInPerson(name=known, scopes=tuple(scopes))
