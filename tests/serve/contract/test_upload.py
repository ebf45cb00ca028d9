"""Forms with files: what clients send is read, and everything else is refused with the part that is wrong."""

import json
import time
from contextlib import suppress

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.contract.inputs import InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.upload import OTHER_BYTES, is_upload, read_upload
from demur.serve.contract.wire import MalformedBody
from tests.serve.contract.pictures.made import encoded
from tests.serve.forms import BOUNDARY, FORM, form, part

PICTURE = encoded("JPEG")
GOOD = form(part("model", "pixels"), part("file", PICTURE, filename="seven.jpg"))
IMAGES, BYTES = InputSpec(kind="image", channels=1, height=8, width=8), InputSpec(kind="bytes")


def read(body, content_type=FORM, most_files=4):
    return read_upload(body, content_type, most_files=most_files)


def test_the_parts_of_a_form_are_a_request():
    request = {"review": {"priority": 3}, "cluster": "c"}
    body = form(
        part("request", json.dumps(request), headers=["Content-Type: application/json"]),
        part("file", PICTURE, filename="../../etc/passwd", headers=["Content-Type: text/html"]),
        part("model", "pixels"),
        part("group", "caf\u00e9"),
    )
    upload = read(body)
    assert upload.request == {"model": "pixels", "group": "caf\u00e9", **request}
    assert upload.files == [PICTURE]
    (item,) = upload.items(IMAGES)
    assert item["input"].startswith("data:image/jpeg;base64,")  # whatever the part says that it is


@pytest.mark.parametrize("content", [b"", b"\r\n", b"--", b"\r\n--", b"\r\n--a-boundar", b"\0" * 100_000, PICTURE])
def test_a_file_comes_back_byte_for_byte(content):
    assert read(form(part("model", "m"), part("file", content))).files == [content]


def test_what_clients_write_is_read():
    """Clients make boundaries of their own, may end without a line break, and may quote the boundary."""
    sent = httpx.Request("POST", "http://x", data={"model": "m"}, files={"file": ('a;"b.png', PICTURE, "image/png")})
    assert read(sent.read(), sent.headers["content-type"]).files == [PICTURE]
    assert read(GOOD.removesuffix(b"\r\n")).files == [PICTURE]
    assert read(GOOD, f'Multipart/Form-Data; charset=utf-8; boundary="{BOUNDARY}"').files == [PICTURE]


def test_files_are_taken_by_models_that_take_such():
    text = read(form(part("model", "m"), part("file", b"a text")))
    assert text.items(BYTES)[0]["input"] == "YSB0ZXh0"
    assert read(GOOD).items(BYTES)[0]["input"].startswith("data:image/jpeg;base64,")
    with pytest.raises(InvalidRequest, match="file: this is not a PNG, a JPEG or a WebP; with curl"):
        text.items(IMAGES)
    with pytest.raises(InvalidRequest, match="file: model 'm' takes no files; send what it takes as JSON"):
        text.items(InputSpec(kind="text"))
    with pytest.raises(InvalidRequest, match="file: model 'pixels' takes no files"):
        read(GOOD).items(InputSpec(kind="chat", pictures=4))


MODEL, FILE, TOLD = part("model", "m"), part("file", PICTURE), part("request", '{"model": "m"}')
MANY = [f"A{n}: b" for n in range(9)]
REFUSED = {
    "no file": (form(MODEL), InvalidRequest, "file: a part with this name"),
    "a file by another name": (form(MODEL, part("image", b"x")), InvalidRequest, "image: this part is not known"),
    "a name that is none": (form(MODEL, FILE, part("\x07", "x")), InvalidRequest, r"'\\x07': this part is not known"),
    "a name that is long": (form(MODEL, FILE, part("n" * 999, "x")), InvalidRequest, "n…: this part is not known"),
    "no name": (form(MODEL, b"A: b\r\n\r\nx"), InvalidRequest, "part 1 of the form: it has no name"),
    "an empty name": (form(MODEL, part("", "x")), InvalidRequest, "part 1 of the form: it has no name"),
    "another disposition": (form(MODEL, FILE.replace(b"form-data", b"attachment")), InvalidRequest, "it has no name"),
    "no header": (form(b"\r\nx"), InvalidRequest, "part 0 of the form: it has no name"),
    "two models": (form(MODEL, MODEL, FILE), InvalidRequest, "model: this part came twice"),
    "two requests": (form(TOLD, TOLD, FILE), InvalidRequest, "request: this part came twice"),
    "said twice": (form(MODEL, FILE, TOLD), InvalidRequest, "model: it is a part of its own"),
    "an input beside": (form(FILE, part("request", '{"model": "m", "input": 1}')), InvalidRequest, r"request\.input: "),
    "no JSON": (form(FILE, part("request", "{")), MalformedBody, "request: this part is not JSON"),
    "half a surrogate": (form(FILE, part("request", '{"a": "\\ud800"}')), MalformedBody, "this part is not JSON"),
    "no object": (form(FILE, part("request", "[1]")), InvalidRequest, "request: a JSON object"),
    "no UTF-8": (form(FILE, part("group", b"\xff")), InvalidRequest, "group: the text is not UTF-8"),
    "a large text": (form(FILE, part("group", b"a" * (OTHER_BYTES + 1))), TooLarge, "group: .* at most 262,144"),
    "a thousand parts": (form(MODEL, *[FILE] * 1000), TooLarge, "the form has 1,001 parts; at most 8 are taken"),
    "an encoding": (
        form(MODEL, part("file", b"AAAA", headers=["Content-Transfer-Encoding: base64"])),
        InvalidRequest,
        "file: no Content-Transfer-Encoding is taken",
    ),
    "a header twice": (
        form(MODEL, part("file", b"x", headers=['Content-Disposition: form-data; name="model"'])),
        InvalidRequest,
        "part 1 of the form: a header stands in it twice",
    ),
    "many headers": (form(part("file", b"x", headers=MANY)), MalformedBody, "a few short headers"),
    "a long header": (form(part("file", b"x", headers=["A: " + "b" * 5000])), MalformedBody, "a few short headers"),
    "a header that is none": (form(part("file", b"x", headers=["\x01: b"])), MalformedBody, "a few short headers"),
    "cut within a file": (GOOD[:-100], MalformedBody, "the form is cut short"),
    "cut within a header": (GOOD[:30], MalformedBody, "the form is cut short"),
    "cut within the end": (GOOD[:-3], MalformedBody, "the form is cut short"),
    "nothing": (b"", MalformedBody, "the form is cut short"),
    "only its end": (f"--{BOUNDARY}--\r\n".encode(), InvalidRequest, "file: a part with this name"),
    "another boundary": (form(MODEL, FILE, boundary="b"), MalformedBody, "at byte"),
    "JSON": (b'{"model": "m", "input": []}', MalformedBody, "at byte 0"),
    "something before": (b"hello\r\n" + GOOD, MalformedBody, "at byte 0"),
    "something behind": (GOOD + b"hello", MalformedBody, "bytes stand behind the end"),
    "a form behind": (GOOD + GOOD, MalformedBody, "bytes stand behind the end"),
    "its boundary within": (
        form(MODEL, part("file", f"x\r\n--{BOUNDARY}y".encode())),
        MalformedBody,
        "its boundary stands within a part",
    ),
}  # fmt: skip


@pytest.mark.parametrize("of", REFUSED)
def test_what_is_wrong_is_refused_with_its_place(of):
    body, kind, words = REFUSED[of]
    with pytest.raises(kind, match=words) as refused:
        read(body)
    assert len(str(refused.value)) < 400


TYPES = {
    "multipart/mixed; boundary=a-boundary": "Content-Type: 'multipart/mixed' is not taken",
    "multipart/": "Content-Type: 'multipart/' is not taken",
    "multipart/form-data": "Content-Type: the boundary is missing",
    "multipart/form-data; boundary=": "Content-Type: the boundary is missing",
    "multipart/form-data; boundary=" + "a" * 71: "this boundary is not one",
    "multipart/form-data; boundary=a\u00e9": "this boundary is not one",
    'multipart/form-data; boundary="a "': "this boundary is not one",
    'multipart/form-data; boundary="a\\"b"': "this boundary is not one",
    "multipart/form-data; boundary=a" + ";" * 600: "it is longer than 512 characters",
}


@pytest.mark.parametrize("content_type", TYPES)
def test_a_type_that_is_not_taken_is_told_so(content_type):
    assert is_upload(content_type)
    with pytest.raises(InvalidRequest, match=TYPES[content_type]):
        read(GOOD, content_type)


def test_what_is_no_form_is_read_as_json():
    for content_type in ("application/json", "", "application/octet-stream", "text/plain; multipart/form-data"):
        assert not is_upload(content_type)


@given(st.lists(st.sampled_from([b"--a-boundary", b"--", b"\r\n", b"\r", b"\n", b": ", b'name="file"', b"A", b"\0",
                                 b"Content-Disposition: form-data; ", b"model", b"file", b"\xff", GOOD])))  # fmt: skip
def test_whatever_comes_is_read_or_refused(pieces):
    try:
        upload = read(b"".join(pieces))
    except (InvalidRequest, MalformedBody):
        return
    assert upload.files


@given(st.data())
def test_a_damaged_form_is_read_or_refused(data):
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        read(bytes(body))
    except (InvalidRequest, MalformedBody):
        return


LARGE = 8_000_000
COSTLY = {
    "boundaries without number": form(MODEL, *[part("file", b"")] * 300_000),
    "nearly boundaries": form(MODEL, part("file", f"\r\n--{BOUNDARY[:-1]}".encode() * 300_000)),
    "lines without number": form(MODEL, part("file", b"\r\n" * (LARGE // 2))),
    "a header without end": b"--a-boundary\r\nA: " + b"b" * LARGE,
    "the name of a header without end": b"--a-boundary\r\n" + b"b" * LARGE,
    "line breaks before it": b"\r\n" * (LARGE // 2) + GOOD,
    "dashes before it": b"\r\n" + b"-" * LARGE,
    "quotes in a header": form(part("file", b"x", headers=['Content-Type: a; b="' + '\\"' * 2000])),
    "a type of semicolons": form(part("file", b"x", headers=["Content-Type: a" + ";" * 4000])),
    "a name of semicolons": form(part('file"' + ";" * 3900 + '"', b"x")),
}


@pytest.mark.parametrize("of", COSTLY)
def test_no_form_costs_more_than_its_bytes(of):
    """A boundary of one letter would stand a million times in a few megabytes."""
    for content_type in (FORM, "multipart/form-data; boundary=a"):
        began = time.process_time()
        with suppress(InvalidRequest, MalformedBody):
            read(COSTLY[of], content_type)
        assert time.process_time() - began < 0.5  # some seconds where each boundary is looked at
