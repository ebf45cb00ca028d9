"""What is taken out never reaches the database; what cannot be taken out is not stored, and not answered."""

import base64

import pytest
from pydantic import ValidationError
from starlette.testclient import TestClient

from demur.serve.config.file import Config
from demur.serve.config.redact import PatternConfig, RedactConfig
from demur.serve.contract.pictures.formats import PNG, prefix_of
from demur.serve.gateway.redaction import BadRedaction, Redaction, RedactionFailed
from demur.serve.web.native.app import gateway_app
from tests.conftest import entry
from tests.fuzz.served import ReadyHost, config
from tests.serve.conftest import make_handler

PNG_PREFIX = prefix_of(PNG)

EMAIL = {"email": {"pattern": r"[\w.+-]+@[\w-]+\.[\w.]+", "replace": "[email]"}}


def upper(value):
    return value.upper() if isinstance(value, str) else value


def breaks(value):
    raise RuntimeError(f"cannot cope with {value}")


def fails_for_texts(value):
    if isinstance(value, str):
        raise RuntimeError("cannot cope")
    return value


def gives_what_nobody_can_store(value):
    return {1, 2}


@pytest.fixture
def client_of(database):
    opened = []

    def client_of(**redact):
        told = Config.model_validate({**config().model_dump(exclude={"redact"}), "redact": redact})
        names = ("words", "pixels", "writer", "streamer")
        handler = make_handler(told, {name: ReadyHost(name) for name in names}, database)
        client = TestClient(gateway_app(handler, max_body_bytes=100_000))
        opened.append(client.__enter__())
        return client

    yield client_of
    for client in opened:
        client.__exit__(None, None, None)


def stored(database):
    with database.transaction() as connection:
        return connection.execute("select input::text, reply::text from payloads order by record_id").fetchall()


def everything(database):
    """All that any table holds, as one text."""
    with database.transaction() as connection:
        tables = connection.execute(
            "select quote_ident(table_name) from information_schema.tables where table_schema = current_schema()"
        ).fetchall()
        return "".join(
            str(connection.execute(f"select string_agg(t::text, ' ') from {name} t").fetchone()) for (name,) in tables
        )


def test_only_what_is_left_is_stored(client_of, database):
    client = client_of(patterns=EMAIL)
    asked = {"model": "words", "input": "ask ada@example.org now"}
    assert client.post("/v1/predict", json=asked).status_code == 200
    batch = {"items": [asked, {"model": "writer", "input": {"messages": [{"role": "user", "content": "bob@b.org"}]}}]}
    assert [one["status"] for one in client.post("/v1/predict/batch", json=batch).json()["results"]] == [200, 200]
    chat = {"model": "streamer", "stream": True, "messages": [{"role": "user", "content": "eve@example.org"}]}
    assert client.post("/v1/chat/completions", json=chat).status_code == 200
    kept = everything(database)
    for secret in ("ada@", "bob@", "eve@"):
        assert secret not in kept
    assert kept.count("[email]") >= 4


def test_a_reply_is_told_as_it_was_said_and_stored_as_it_may_be(client_of, database):
    client = client_of(patterns={"reply": {"pattern": "a reply", "replace": "-"}})
    headers = {"Idempotency-Key": "k"}
    asked = {"model": "writer", "input": "hello"}
    assert client.post("/v1/predict", json=asked, headers=headers).json()["prediction"] == "a reply"
    assert stored(database)[0][1] == '{"text":"-","finish_reason":"stop"}'
    assert client.post("/v1/predict", json=asked, headers=headers).json()["prediction"] == "-"


@pytest.mark.parametrize("name", ["breaks", "gives_what_nobody_can_store"])
def test_what_cannot_be_redacted_is_neither_stored_nor_answered(client_of, database, caplog, name):
    client = client_of(function=f"{__name__}:{name}")
    told = client.post("/v1/predict", json={"model": "words", "input": "my secret"})
    assert told.status_code == 503
    assert told.json()["error"]["kind"] == "RedactionFailed"
    assert "my secret" not in told.text + caplog.text + everything(database)
    assert stored(database) == []


def test_a_function_comes_first_and_patterns_after(client_of, database):
    client = client_of(function=f"{__name__}:upper", patterns={"name": {"pattern": "ADA"}})
    assert client.post("/v1/predict", json={"model": "words", "input": "it is ada"}).status_code == 200
    assert stored(database)[0][0] == '"IT IS [removed]"'


HEARD = []


def hears(value):
    HEARD.append(value)
    return value


@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_a_tensor_is_heard_as_the_lists_that_are_stored(client_of, database, datatype):
    HEARD.clear()
    tensor = {"name": "input", "datatype": datatype, "shape": [1, 2, 2], "data": [0, 0.1, 0.75, 1]}
    path = "/v2/models/pixels/infer"
    assert client_of().post(path, json={"inputs": [tensor]}).status_code == 200
    client = client_of(function=f"{__name__}:hears")
    assert client.post(path, json={"inputs": [tensor]}).status_code == 200
    assert client.post("/v1/predict", json={"model": "pixels", "input": [[0, 0.1], [0.75, 1]]}).status_code == 200
    assert HEARD == [[[0, 0.1], [0.75, 1]]] * 2
    assert all(type(row) is list and type(one) in (int, float) for heard in HEARD for row in heard for one in row)
    plain, redacted, native = (row[0] for row in stored(database))
    assert plain == redacted
    assert redacted.replace(".0", "") == native.replace(".0", "")


def test_texts_are_redacted_wherever_they_stand():
    redacted = Redaction(RedactConfig.model_validate({"patterns": {"a": {"pattern": "a+", "replace": r"\1"}}})).redacted
    assert redacted({"a": ["ba", {"b": "aa"}, 1, None, True]}) == {r"\1": [r"b\1", {"b": r"\1"}, 1, None, True]}
    assert redacted([[0.5, 1], [0, 1]]) == [[0.5, 1], [0, 1]]
    png = PNG_PREFIX + base64.b64encode(b"\x89PNG\r\n" + b"i\xa6\x9a" * 2).decode()
    assert "aaaa" in png
    assert redacted(png) == png


@pytest.mark.parametrize("text", ["call 555-1234", "5551234", "iVBORw0KGgo= call 555-1234", "é 555-1234"])
def test_a_text_that_only_begins_like_a_picture_is_redacted(text):
    redacted = Redaction(RedactConfig.model_validate({"patterns": {"phone": {"pattern": r"555-?1234"}}})).redacted
    assert "1234" not in redacted(PNG_PREFIX + text)


def test_a_hostile_text_takes_no_longer_than_another():
    """With a pattern that takes other engines longer than the universe has been there."""
    redacted = Redaction(RedactConfig.model_validate({"patterns": {"a": {"pattern": "(a+)+$"}}})).redacted
    assert redacted("a" * 100_000 + "b") == "a" * 100_000 + "b"


@pytest.mark.parametrize("pattern", ["(", "(?=a)", r"(a)\1", "a*", ""])
def test_patterns_that_cannot_be_are_refused_at_the_start(pattern):
    with pytest.raises(ValidationError, match=r"RE2|matches where|at least 1"):
        PatternConfig(pattern=pattern)


@pytest.mark.parametrize("name", ["no.such.module:f", f"{__name__}:nothing", f"{__name__}:EMAIL"])
def test_a_function_that_is_not_there_is_refused_at_the_start(name):
    with pytest.raises(BadRedaction, match=r"redact\.function"):
        Redaction(RedactConfig(function=name))


def test_the_error_of_a_function_says_nothing_of_the_input():
    with pytest.raises(RedactionFailed) as told:
        Redaction(RedactConfig(function=f"{__name__}:breaks")).redacted("my secret")
    assert told.value.__cause__ is None
    assert "secret" not in str(told.value)


def written(**more):
    reply = {"text": "ask ada@example.org", "finish_reason": "stop", **more}
    return entry(model="writer", input="?", reply=reply)


def test_a_trace_is_redacted_as_its_reply_is():
    kept = Redaction(RedactConfig.model_validate({"patterns": EMAIL})).entry(
        written(reasoning="is it ada@example.org?")
    )
    assert "ada" not in kept.record.reply["reasoning"]
    assert kept.record.reply["reasoning"].startswith("is it ")


def test_where_tokens_lie_does_not_tell_of_what_was_taken_out():
    tokens = {"lengths": [3, 16], "logprobs": [-0.1, -0.2]}
    redaction = Redaction(RedactConfig.model_validate({"patterns": EMAIL}))
    assert "tokens" not in redaction.entry(written(tokens=tokens)).record.reply
    plain = redaction.entry(written(tokens=tokens, text="ask anybody at all!"))
    assert plain.record.reply["tokens"] == tokens


@pytest.mark.parametrize(
    ("reply", "kept"),
    [
        ("write to ada@example.org", "write to [email]"),
        (
            {"text": "ada@example.org", "tokens": ["ada", "@example.org"], "logprobs": [-0.1, -0.2]},
            {"text": "[email]"},
        ),
        (
            {"text": "nobody", "reasoning": "not ada@example.org", "finish_reason": "length", "logprobs": [-0.1]},
            {"text": "nobody", "reasoning": "not [email]", "finish_reason": "length"},
        ),
        (
            {
                "message": {"role": "assistant", "content": "ada@example.org"},
                "logprobs": {"content": [{"token": "ada"}]},
            },
            {"message": {"role": "assistant", "content": "[email]"}},
        ),
        ({"text": "so", "tokens": ["so"], "logprobs": [-0.1]},) * 2,
    ],
    ids=["a text", "with tokens", "with reasoning", "a choice", "nothing to take out"],
)
def test_replies_that_a_request_brings_are_redacted_too(reply, kept):
    """A request may bring the reply of a model that runs elsewhere. It is stored twice, and redacted in both places."""
    written = entry()
    written.output = {"reply": reply, "samples": [reply, "b@b.org"], "probabilities": {"spam": 0.5, "ham": 0.5}}
    stored = Redaction(RedactConfig(patterns=EMAIL)).entry(written)
    assert stored.output == {
        "reply": kept, "samples": [kept, "[email]"], "probabilities": {"spam": 0.5, "ham": 0.5},
    }  # fmt: skip
    assert written.output["reply"] == reply  # what the caller is told hangs on it


def test_a_reply_of_a_request_that_cannot_be_redacted_is_not_stored():
    written = entry(input=1.5)
    written.output = {"reply": "so"}
    redaction = Redaction(RedactConfig(function=f"{__name__}:fails_for_texts"))
    with pytest.raises(RedactionFailed):
        redaction.entry(written)
