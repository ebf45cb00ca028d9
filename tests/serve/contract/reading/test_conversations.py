"""Conversations with pictures: which are taken, and what is said of the others."""

import pytest

from demur.serve.contract.inputs import InputLimits, InputSpec, InvalidRequest, TooLarge
from demur.serve.contract.messages import text_of
from demur.serve.contract.reading.inputs import read_input, read_inputs
from demur.serve.contract.reading.pictures import Picture
from tests.serve.contract.reading.png_files import png, url

LIMITS = InputLimits(text_characters=100)
SEEING = InputSpec(kind="chat", pictures=2)
SMALL = url(png(8, 8))
CUT = url(png(64, 64)[:-30])


def picture(address=SMALL, **more):
    return {"type": "image_url", "image_url": {"url": address, **more}}


def said(text):
    return {"type": "text", "text": text}


def asked(*parts, role="user"):
    return {"messages": [{"role": role, "content": list(parts)}]}


def read(value, spec=SEEING, limits=LIMITS):
    return read_input(value, spec, limits)


def test_pictures_are_passed_on_as_they_came_between_texts():
    value = asked(said("before"), picture(detail="auto"), said("after"))
    (message,) = read(value).messages
    assert message["content"] == [said("before"), picture(), said("after")]
    assert text_of(message) == "before\n[a picture]\nafter"
    assert read(asked(picture())).messages[0]["content"] == [picture()]


def test_texts_in_parts_are_a_text_whatever_the_model_takes():
    for spec in (SEEING, InputSpec(kind="chat")):
        assert read(asked(said("two"), said("lines")), spec).messages[0]["content"] == "two\nlines"


REFUSED = {
    "an address": (asked(picture("https://example.org/cat.png")), r"content\.0\.image_url\.url: .*nothing is fetched"),
    "a file": (asked(picture("file:///etc/passwd")), "nothing is fetched"),
    "another kind": (asked(picture("data:image/svg+xml;base64,PHN2Zz4=")), "nothing is fetched"),
    "capitals": (asked(picture("DATA:image/png;base64,AAAA")), "nothing is fetched"),
    "no url": (asked({"type": "image_url", "image_url": {}}), r"messages\.0\.content\.0: a part is a text"),
    "a url that is a list": (asked(picture([SMALL])), "nothing is fetched"),
    "a bare url": (asked({"type": "image_url", "image_url": SMALL}), "a part is a text"),
    "a further key": (asked({**picture(), "cache": 1}), "a part is a text"),
    "a further key inside": (asked(picture(format="png")), "a part is a text"),
    "detail": (asked(picture(detail="high")), "detail: only `auto` is taken"),
    "a sound": (asked({"type": "input_audio", "input_audio": {}}), "a part is a text"),
    "a number": (asked(7), "a part is a text"),
    "a text that is none": (asked({"type": "text", "text": None}), "a part is a text"),
    "no parts": (asked(), "there is no part"),
    "the system's": (
        {"messages": [*asked(picture(), role="system")["messages"], {"role": "user", "content": "x"}]},
        "not of the role system",
    ),
    "no file": (asked(said("x"), picture("data:image/png;base64,AAAA")), r"messages\.0\.content\.1: the image"),
    "no base64": (asked(picture("data:image/png;base64,%%%%")), r"messages\.0\.content\.0: the image URL is not valid"),
    "cut short": (asked(picture(CUT)), r"messages\.0\.content\.0: the image"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_picture_is_refused_with_its_place(case):
    value, words = REFUSED[case]
    with pytest.raises(InvalidRequest, match=words) as refused:
        read(value)
    assert "input: " not in str(refused.value)


def test_a_model_that_takes_none_says_so_without_reading_any():
    with pytest.raises(InvalidRequest, match=r"input\.messages\.0\.content\.0: this model takes texts alone"):
        read(asked(picture("data:image/png;base64,broken")), InputSpec(kind="chat"))


def test_pictures_are_counted_and_measured_together():
    with pytest.raises(TooLarge, match=r"they have 3 pictures; at most 2 are taken \(host\.pictures\)"):
        read(asked(picture(), picture(), picture()))
    limits = InputLimits(text_characters=100, image_pixels=100)
    assert read(asked(picture()), limits=limits)
    with pytest.raises(TooLarge, match=r"content\.1: the images of one request have more than 100 pixels"):
        read(asked(picture(), picture()), limits=limits)
    with pytest.raises(TooLarge, match="4,097 x 4,097 pixels; at most 16,777,216 are taken"):
        read(asked(picture(url(png(4097, 4097)))))
    with pytest.raises(TooLarge, match="they have 101 characters"):
        read(asked(said("x" * 101), picture()))


def test_each_input_of_a_batch_has_its_own_pictures():
    values = [asked(picture(CUT)), "a text", asked(picture()), asked(7, picture()), {"messages": 3}, asked(picture())]
    limits = InputLimits(text_characters=100)
    bad, text, good, odd, none, last = read_inputs(values, SEEING, limits)
    assert all(isinstance(one, InvalidRequest) for one in (bad, odd, none))
    assert text.messages[0]["content"] == "a text"
    assert good == last
    assert good.messages[0]["content"] == [picture()]


def test_too_many_pictures_are_not_decoded(monkeypatch):
    decoded = []
    real = Picture.decoded
    monkeypatch.setattr(Picture, "decoded", lambda self, spec: decoded.append(self) or real(self, spec))
    with pytest.raises(TooLarge, match="they have 4 pictures"):
        read(asked(*[picture()] * 4))
    assert decoded == []
    read(asked(picture()))
    assert len(decoded) == 1
