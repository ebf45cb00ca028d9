"""Which hosts and origins are this service's own."""

import pytest

from demur.serve.access.own_hosts import OwnHosts
from demur.serve.access.refusals import UnknownHost
from demur.serve.config.access import AccessConfig
from demur.serve.config.file import HttpConfig
from demur.serve.deployments.guarded import own_hosts

NAMED = OwnHosts(["demur.internal", "0.0.0.0"], url="https://demur.example.org/")


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8000",
        "LocalHost:8000",
        "127.0.0.1",
        "127.0.0.1:8000",
        "127.8.9.10:1",
        "0.0.0.0:8000",
        "10.1.2.3:8000",  # as a kubelet and Prometheus ask
        "[::1]",
        "[::1]:8000",
        "[2001:db8::7]:8000",
        "demur.internal:8000",
        "demur.example.org",
        "DEMUR.example.org:443",
    ],
)
def test_what_no_other_site_can_go_by_is_known(host):
    NAMED.check(host.encode())


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8000",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.1.nip.io:8000",
        "evil-localhost",
        "localhost.",
        "demur.example.org.evil.example",
        "xdemur.example.org",
        "demur.example.org@evil.example",
        "evil.example#demur.internal",
        "[::1].evil.example",
        "[evil.example]",
        "[::1",
        "::1",
        "127.0.0.1:8000:8000",
        "127.0.0.1 evil.example",
        "",
        " ",
        "é.example",
        "x" * 100_000,
    ],
)
def test_any_other_name_is_refused_and_told_what_to_set(host):
    with pytest.raises(UnknownHost, match=r"`http\.names`") as refused:
        NAMED.check(host.encode())
    assert len(str(refused.value)) < 400


def test_under_any_name_where_callers_show_who_they_are():
    OwnHosts([], any_name=True).check(b"demur-serve-svc.demur.svc.cluster.local:8000")


@pytest.mark.parametrize(
    ("origin", "host", "forwarded", "ours"),
    [
        ("http://127.0.0.1:8000", "127.0.0.1:8000", "", True),
        ("http://LOCALHOST:8000", "localhost:8000", "", True),
        ("http://localhost:8000", "127.0.0.1:8000", "", False),  # another site, on the same machine
        ("http://localhost:3000", "localhost:8000", "", False),
        ("http://localhost", "localhost:8000", "", False),
        ("http://evil.example", "localhost:8000", "", False),
        ("null", "localhost:8000", "", False),
        ("", "", "", False),
        ("https://", "", "", False),
        ("https://demur.example.org", "10.0.0.7:8000", "", True),  # a proxy in front asks by address
        ("http://demur.example.org", "demur.example.org", "", False),  # the page came over plain http
        ("https://demur.example.org:8443", "10.0.0.7:8000", "", False),
        ("https://other.example.org", "10.0.0.7:8000", "other.example.org", True),
        ("https://other.example.org", "10.0.0.7:8000", "first.example.org, Other.example.org", True),
        ("https://other.example.org", "10.0.0.7:8000", "first.example.org", False),
    ],
)
def test_whose_an_origin_is(origin, host, forwarded, ours):
    assert NAMED.sent_from_here(origin.encode(), host.encode(), forwarded.encode()) is ours


@pytest.mark.parametrize(
    ("access", "names", "known"),
    [
        (None, (), False),
        (AccessConfig(mode="open"), (), False),
        (AccessConfig(mode="open", url="https://lab.example"), (), True),
        (None, ("lab.example",), True),
        (AccessConfig(), (), True),
        (AccessConfig(url="https://demur.example.org"), (), True),  # machines may know it by other names
        (AccessConfig(), ("demur.example.org",), False),  # unless it is said which
    ],
)
def test_what_the_configuration_means(quickstart, access, names, known):
    config = quickstart.model_copy(update={"access": access, "http": HttpConfig(names=names)})
    hosts = own_hosts(config)
    if known:
        hosts.check(b"lab.example:8000")
    else:
        with pytest.raises(UnknownHost):
            hosts.check(b"lab.example:8000")


@pytest.mark.parametrize(
    "name", ["http://demur.example.org", "demur.example.org:8000", "*", "", "a b", "-a", "*.example"]
)
def test_what_is_no_name_is_refused(name):
    with pytest.raises(ValueError, match="is not a name like"):
        HttpConfig(names=(name,))
