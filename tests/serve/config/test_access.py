"""`access` in the configuration, and that nothing is reachable by accident."""

import pytest
from pydantic import ValidationError

from demur.serve.config.access import (
    AccessConfig,
    OidcConfig,
    ProxyConfig,
    Unguarded,
    check_guarded,
    is_loopback,
    reach_in_words,
)
from tests.conftest import ROOT

KEYS, OPEN = AccessConfig(), AccessConfig(mode="open")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.2.1", "localhost", "::1", "[::1]"])
def test_this_machine(host):
    assert is_loopback(host)
    check_guarded(None, host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.7", "192.168.1.1", "demur.example.org", "127.evil.org", ""])
def test_others_reach_it_only_where_it_is_said_who_gets_in(host):
    assert not is_loopback(host)
    with pytest.raises(Unguarded, match=r"write `access: \{mode: keys\}` and make keys with `demur keys make`, or"):
        check_guarded(None, host)
    check_guarded(KEYS, host)
    check_guarded(OPEN, host)


def test_on_a_cluster_others_always_reach_it():
    with pytest.raises(Unguarded, match="on a cluster, which other machines reach"):
        check_guarded(None, "127.0.0.1", on_cluster=True)
    check_guarded(KEYS, "127.0.0.1", on_cluster=True)
    check_guarded(OPEN, "127.0.0.1", on_cluster=True)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Using extra keyword arguments")  # Ray's, on import
def test_every_builder_refuses(quickstart, monkeypatch):
    from demur.serve import app

    alone = app.AppArgs.model_validate(quickstart.model_dump())
    reached = app.AppArgs.model_validate(quickstart.model_dump() | {"http": {"host": "0.0.0.0"}})
    for build, _ in app.APPLICATIONS.values():
        with pytest.raises(Unguarded):
            build(reached)
    monkeypatch.setattr(app, "_on_cluster", lambda: True)
    for build, _ in app.APPLICATIONS.values():
        with pytest.raises(Unguarded):
            build(alone)


def test_who_gets_in_is_said_in_words():
    assert reach_in_words(None, "127.0.0.1") == "this machine alone reaches it, and nobody is asked who they are"
    said = "others reach it at 0.0.0.0, and whoever asks shows a key or has logged in"
    assert reach_in_words(KEYS, "0.0.0.0") == said
    assert "nobody is asked" in reach_in_words(OPEN, "0.0.0.0")


def test_the_documentation_lists_every_setting():
    table = (ROOT / "docs/configuration.md").read_text()
    lines = "".join(line.split(" | ")[0] for line in table.splitlines() if line.startswith("| `access."))
    for place, section in (("access", AccessConfig), ("access.oidc", OidcConfig), ("access.proxy", ProxyConfig)):
        for name in section.model_fields.keys() - {"oidc", "proxy"}:
            assert f"`{place}.{name}`" in lines or f"`.{name}`" in lines, f"{place}.{name}"


def test_a_mode_that_is_none_is_refused():
    with pytest.raises(ValidationError, match="keys"):
        AccessConfig(mode="none")
