"""Where a service is, and the key for it."""

import pytest

from demur.client.address import BadAddress, address_of


def test_the_environment_counts_where_nothing_is_given(monkeypatch):
    assert address_of(None, None).shown == "http://127.0.0.1:8000"
    assert address_of(None, None).key is None
    monkeypatch.setenv("DEMUR_URL", "https://demur.test/below/")
    monkeypatch.setenv("DEMUR_KEY", " demur_key\n")
    assert address_of(None, None).shown == "https://demur.test/below"
    assert address_of(None, None).key == "demur_key"
    assert address_of("http://other.test", "mine").key == "mine"
    assert address_of("http://other.test", "").key is None


@pytest.mark.parametrize(
    "url",
    ["localhost:8000", "demur.test", "", " ", "ftp://demur.test", "http://", "http://[", "http://a b", "file:///etc"],
)
def test_what_is_no_address(url):
    if url.strip():
        with pytest.raises(BadAddress, match=r"write one such as http://127\.0\.0\.1:8000"):
            address_of(url, None)


@pytest.mark.parametrize("key", ["a key", "schlüssel", "k\r\nX-Evil: 1", "k\x00"])
def test_a_key_that_no_header_holds_is_not_repeated(key):
    with pytest.raises(BadAddress) as raised:
        address_of(None, key)
    assert key not in str(raised.value)


def test_a_key_in_the_place_of_the_address_is_not_repeated():
    with pytest.raises(BadAddress, match="looks like a key") as raised:
        address_of("demur_s3cret", None)
    assert "s3cret" not in str(raised.value)


def test_a_password_is_never_shown():
    address = address_of("http://ada:secret@demur.test:81/x?token=secret", None)
    assert address.shown == "http://demur.test:81/x"
    assert "secret" not in repr(address)
    with pytest.raises(BadAddress, match="leave one of them out") as raised:
        address_of("http://ada:secret@demur.test", "key")
    assert "secret" not in str(raised.value)
    with pytest.raises(BadAddress) as raised:
        address_of("ftp://ada:secret@demur.test", None)
    assert "secret" not in str(raised.value)
