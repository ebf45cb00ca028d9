"""Whether a provider of logins answers."""

from collections.abc import Iterator

from demur.serve.commands.http_answer import NoAnswer, answer_of, as_json
from demur.serve.commands.trials import Finding, NotTried, Wrong
from demur.serve.config.access import OidcConfig

OK = 200


def try_provider(oidc: OidcConfig, *, offline: bool) -> Iterator[Finding]:
    """Whether a provider of OpenID Connect describes itself as who it is said to be."""
    if offline:
        yield NotTried(f"the provider of logins, {oidc.issuer} (--offline)")
        return
    url = f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration"
    try:
        status, body = answer_of(url, {})
    except NoAnswer as error:
        yield Wrong(("access", "oidc", "issuer"), f"{oidc.issuer} {error}")
        return
    told = as_json(body)
    issuer = told.get("issuer") if isinstance(told, dict) else None
    if status != OK or issuer != oidc.issuer:
        said = f"calls itself {issuer!r}" if status == OK and issuer else f"describes no provider at {url} ({status})"
        yield Wrong(("access", "oidc", "issuer"), f"{oidc.issuer} {said}")
