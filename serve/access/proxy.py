"""People of whom a proxy in front says who they are, in headers that nobody else can send."""

from collections.abc import Sequence
from hmac import compare_digest

from demur.serve.access.caller import Caller, Via
from demur.serve.access.refusals import NotAllowed, NotKnown
from demur.serve.access.roles import person_of
from demur.serve.access.sessions import LoginRefused
from demur.serve.config.access import ProxyConfig

SECRET_HEADER = b"x-demur-proxy-secret"


class TrustedProxy:
    """Believes a proxy that shows the secret which it shares with this service.

    The address of the peer proves nothing here: HAProxy of Ray Serve is the peer of every request, and does not say who
    its own was."""

    def __init__(self, config: ProxyConfig) -> None:
        self._config = config
        self._secret = config.secret().encode()
        self._name = config.name_header.lower().encode()
        self._roles = config.roles_header.lower().encode()
        self._address = config.address_header.lower().encode()

    def caller(self, headers: Sequence[tuple[bytes, bytes]]) -> Caller | None:
        """Who the proxy says it is; None where no proxy speaks. Raises `NotKnown` for a wrong secret."""
        if not self._speaks(headers):
            return None
        names = [value for name, value in headers if name == self._name]
        if not names:
            return None
        if len(names) != 1:
            raise NotKnown(f"{self._config.name_header} is there twice; the proxy must take out what others send")
        roles = [role.strip() for name, value in headers if name == self._roles for role in _text(value).split(",")]
        try:
            person = person_of(_text(names[0]), roles, self._config.roles, self._config.everyone)
        except LoginRefused as error:
            raise NotAllowed(str(error)) from None
        return Caller(name=person.name, scopes=frozenset(person.scopes), via=Via.PROXY)

    def address(self, headers: Sequence[tuple[bytes, bytes]]) -> str | None:
        """From which address the proxy was asked; None where no proxy speaks, or it does not say. Raises `NotKnown`."""
        if not self._speaks(headers):
            return None
        told = [_text(value) for name, value in headers if name == self._address]
        return ",".join(told).rpartition(",")[2].strip() or None

    def _speaks(self, headers: Sequence[tuple[bytes, bytes]]) -> bool:
        shown = [value for name, value in headers if name == SECRET_HEADER]
        if shown and (len(shown) != 1 or not compare_digest(shown[0], self._secret)):
            raise NotKnown("this is not the secret that the proxy in front of this service knows")
        return shown != []


def _text(value: bytes) -> str:
    return value.decode("utf-8", "replace")
