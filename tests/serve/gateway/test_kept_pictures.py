"""What a picture says beside its pixels is stored nowhere, whichever door it comes through."""

import base64
import json
import re

import pytest
from starlette.testclient import TestClient

from demur.serve.contract.pictures.formats import FORMATS, url_of
from demur.traffic import log
from tests.fuzz.served import MODELS, mounted, served
from tests.serve.contract.pictures.made import SECRET, encoded, telling
from tests.serve.gateway.test_erase import everything_in

FORMAT = {one.name.upper(): one for one in FORMATS}
FILES = re.compile(r"data:image/[a-z]+;base64,([A-Za-z0-9+/=]+)")


@pytest.fixture
def client(database):
    with TestClient(mounted(served(database)[0]), headers={"X-Demur-Reviewer": "ada"}) as client:
        yield client


def url(name, **settings):
    return url_of(telling(name, **settings), FORMAT[name])


def at_predict(client, picture):
    return client.post("/v1/predict", json={"model": "pixels", "input": picture})


def in_a_batch(client, picture):
    return client.post("/v1/predict/batch", json={"items": [{"model": "pixels", "input": picture}]})


def over_the_open_protocol(client, picture):
    tensor = {"name": "input", "datatype": "BYTES", "shape": [1], "data": [picture]}
    return client.post("/v2/models/pixels/infer", json={"inputs": [tensor]})


def beside_an_output(client, picture):
    output = {"probabilities": [0.5, 0.5]}
    return client.post("/v1/predict", json={"model": "vendor", "input": picture, "output": output})


def messages_with(picture):
    part = {"type": "image_url", "image_url": {"url": picture, "detail": "auto"}}
    return [{"role": "user", "content": [{"type": "text", "text": "what is it?"}, part]}]


def in_a_conversation(client, picture):
    return client.post("/v1/predict", json={"model": "seer", "input": {"messages": messages_with(picture)}})


def in_a_conversation_beside_an_output(client, picture):
    return beside_an_output(client, {"messages": messages_with(picture)})


def in_a_chat(client, picture):
    return client.post("/v1/chat/completions", json={"model": "seer", "messages": messages_with(picture)})


def in_a_chat_that_streams(client, picture):
    body = {"model": "seer", "messages": messages_with(picture), "stream": True}
    return client.post("/v1/chat/completions", json=body)


DOORS = (
    at_predict,
    in_a_batch,
    over_the_open_protocol,
    beside_an_output,
    in_a_conversation,
    in_a_conversation_beside_an_output,
    in_a_chat,
    in_a_chat_that_streams,
)


def files_in(database):
    """Every picture that is stored anywhere."""
    rows = "\n".join(everything_in(database).values())
    return [base64.b64decode(file) for file in FILES.findall(rows)]


@pytest.mark.parametrize("door", DOORS)
def test_where_it_was_taken_is_in_no_table(client, database, door):
    for name in FORMAT:
        told = door(client, url(name))
        assert told.status_code == 200, told.text
        assert '"error":{' not in told.text
    files = files_in(database)
    assert all(SECRET not in file and b"Exif" not in file for file in files)
    assert set(files) == {FORMAT[name].read(telling(name)).kept for name in FORMAT}
    said = base64.b64encode(SECRET)[4:-4].decode()
    assert all(said not in rows for rows in everything_in(database).values())


def test_the_model_in_a_conversation_is_asked_about_the_stored_file(client, database, monkeypatch):
    asked = []
    monkeypatch.setattr("tests.fuzz.served.ReadyHost.stream", recording(asked))
    assert in_a_chat_that_streams(client, url("JPEG")).status_code == 200
    (file,) = files_in(database)
    (part,) = [part for part in asked[0].messages[0]["content"] if part["type"] == "image_url"]
    assert part["image_url"]["url"] == url_of(file, FORMAT["JPEG"])


def recording(asked):
    async def stream(self, value, group, draw):
        asked.append(value)
        yield ""
        (share,) = await self.decide([value], [group], [draw])
        yield share

    return stream


def test_a_reviewer_is_shown_a_photo_as_the_model_saw_it(client, database):
    """Its file says how it was held, and nothing else."""
    assert at_predict(client, url("JPEG", orientation=6)).status_code == 200
    (file,) = files_in(database)
    assert b"Exif" in file
    assert SECRET not in file


def test_an_equal_request_is_still_an_equal_request(client):
    """What makes two requests equal is what came, and not what is stored of it."""
    body = {"model": "pixels", "input": url("JPEG")}
    first, second = (client.post("/v1/predict", json=body, headers={"Idempotency-Key": "k"}) for _ in range(2))
    assert first.json() == second.json()
    assert (first.headers.get("idempotent-replay"), second.headers["idempotent-replay"]) == (None, "true")
    other = {**body, "input": url_of(FORMAT["JPEG"].read(telling("JPEG")).kept, FORMAT["JPEG"])}
    told = client.post("/v1/predict", json=other, headers={"Idempotency-Key": "k"})
    assert told.status_code == 409
    assert "KeyReused" in told.text


def test_a_picture_without_more_is_stored_as_it_came(client, database):
    """Byte for byte, so that nobody's file changes without need."""
    picture = url_of(encoded("JPEG"), FORMAT["JPEG"])
    told = at_predict(client, picture)
    with database.transaction() as connection:
        assert log.find_input(connection, told.json()["id"]) == picture


BROKEN = {
    "a picture": (lambda broken: broken, "input: the image is not a JPEG that can be read"),
    "in a conversation": (
        lambda broken: {"messages": messages_with(broken)},
        "input.messages.0.content.1: the image is not a JPEG that can be read",
    ),
    "very many": (
        lambda broken: {"messages": messages_with(broken) * 65},
        "input.messages: they have 65 pictures; at most 64 are taken",
    ),
}


@pytest.mark.parametrize("of", BROKEN)
def test_beside_an_output_a_picture_that_cannot_be_read_is_refused(client, of):
    make, words = BROKEN[of]
    told = beside_an_output(client, make(url_of(telling("JPEG")[:-50], FORMAT["JPEG"])))
    assert told.status_code in (413, 422)
    assert words in json.dumps(told.json())


def test_a_text_that_merely_begins_like_a_picture_stays_a_text(client, database):
    told = beside_an_output(client, "data:image/png;base64,AAAA is how such an address begins")
    assert told.status_code == 200
    with database.transaction() as connection:
        kept = log.find_input(connection, told.json()["id"])
    assert kept == "data:image/png;base64,AAAA is how such an address begins"


def test_every_model_that_takes_pictures_was_asked():
    assert {"pixels", "seer", "vendor"} <= set(MODELS)
