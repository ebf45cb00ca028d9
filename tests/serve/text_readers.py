"""Whatever reads text from outside, each with the texts on which it has most to do, for `test_patterns.py`."""

import asyncio
import contextlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from types import SimpleNamespace

from starlette.requests import Request
from transformers import AutoTokenizer

from demur.audit.report.glossary import _VARIANT
from demur.policies.hierarchy import IMDRF_CODE
from demur.serve.access.authenticator import _token
from demur.serve.access.names import as_name
from demur.serve.access.needs import REVIEW, Doors
from demur.serve.access.own_hosts import OwnHosts
from demur.serve.access.refusals import NotKnown
from demur.serve.access.tokens import read_token
from demur.serve.config.file import DSN
from demur.serve.config.label_table import LabelTable
from demur.serve.config.redact import RedactConfig
from demur.serve.contract.body import check_structure
from demur.serve.contract.inference_protocol.structure import check_fields
from demur.serve.contract.inference_protocol.tensors import tensor_from_bytes
from demur.serve.contract.inputs import InvalidRequest
from demur.serve.contract.printable import printable
from demur.serve.contract.reading.numbers import array_of
from demur.serve.contract.wire import OutcomeRequest, PredictRequest, checked_key, parse
from demur.serve.gateway.redaction import Redaction
from demur.serve.hosts.language.endpoint_client import read_refusal
from demur.serve.hosts.language.endpoint_reply import PartialReply, ReplyToken, _texts, laid_over
from demur.serve.hosts.language.label_lists import json_read, lines_read, token_spans
from demur.serve.hosts.language.matching import is_right, last_number, same_text
from demur.serve.hosts.language.pair import read_side
from demur.serve.hosts.language.prompt_tokens import ChatTemplate
from demur.serve.hosts.language.readings import Names, letter_in
from demur.serve.hosts.language.reasoning import ReasoningStream, split
from demur.serve.hosts.language.refused_parameters import change_for
from demur.serve.hosts.language.reply import TokenTexts, put_together
from demur.serve.telemetry.logs import JsonStream
from demur.serve.telemetry.request_middleware import SANE
from demur.serve.web.audit.reports.with_bar import with_bar
from demur.serve.web.native.deadline import seconds_of
from demur.serve.web.openai.errors import problem_of
from demur.serve.web.review.case_import import people_of
from demur.serve.web.review.label_search import LabelSearch
from demur.serve.web.review.label_studio import annotations_of, rows_of_export
from demur.serve.web.review.showing import glance
from demur.serve.web.shared.cookies import PlainCookies, cookie
from demur.traffic.hidden_characters import spelled_out
from demur.traffic.outcomes import reads_as_review
from demur.traffic.spreadsheet import as_cell, from_cell
from demur.uncertainty import sampled_scores
from demur.uncertainty.checks import InvalidInput
from demur.uncertainty.generation import Generation
from demur.uncertainty.self_report import parse_confidence_rating, parse_joint_confidences
from demur.uncertainty.trace import trace_features
from tests.conftest import ROOT

Read = Callable[[str], object]
"""Reads a text as it is read where it comes from outside; what it raises does not matter."""

EVERYWHERE: tuple[Callable[[int], str], ...] = tuple(
    lambda n, unit=unit, end=end: unit * (n // len(unit)) + end
    for unit, end in (
        (" ", "x"), ("a", "!"), ("1", "x"), ("\t \n", "!"), ('\\"', ""), ("\\", '"'), ('"', ""), ("[", "x"), ("(", "x"),
        ("a ", "b"), ("1.", "x"), ("1,", "x"), (".", "a"), ("`", "~"), ("\u3164", "x"), ("{", "}"), ("/", "\0"),
        ("a.", ":"),
    )
)  # fmt: skip
"""Texts on which patterns often have much to do: runs, and what almost fits again and again."""


@dataclass(frozen=True)
class Reader:
    """Something that reads text from outside, and texts of any length on which it has most to do."""

    read: Read
    worst: tuple[Callable[[int], str], ...] = field(default=())


def quiet(read: Read) -> Read:
    def reads(text: str) -> None:
        with contextlib.suppress(ValueError, LookupError, PermissionError, InvalidInput, InvalidRequest, NotKnown):
            read(text)

    return reads


def repeated(unit: str, begin: str = "", end: str = "") -> Callable[[int], str]:
    return lambda n: begin + unit * (n // len(unit)) + end


def halves(begin: str, unit: str, between: str, other: str, end: str = "") -> Callable[[int], str]:
    return lambda n: begin + unit * (n // 2 // len(unit)) + between + other * (n // 2 // len(other)) + end


def in_pieces(make: Callable[[], Callable[[str], object]], size: int = 3) -> Read:
    """Reads a text that comes bit by bit."""

    def read(text: str) -> None:
        add = make()
        for at in range(0, len(text), size):
            add(text[at : at + size])

    return read


def names_in(text: str) -> object:
    """A reply, with options that the caller wrote so as to be nearly in it."""
    half = len(text) // 2
    return Names([text[:half] + "b", text[:half] + "c", "a", text[half:] + "d"]).within(text)


def wanted_in(text: str) -> object:
    return is_right(text, text[: len(text) // 2] + "b", "contains") or is_right(
        text, "." * (len(text) // 2) + "b", "contains"
    )


LABELS = Names([f"label {at}" for at in range(20)])


def listed(text: str) -> object:
    found = lines_read(text, LABELS)
    reply = Generation(
        text=text, tokens=tuple(text[at : at + 4] for at in range(0, len(text), 4)), logprobs=None, top_logprobs=None,
        finish_reason="stop", prompt_tokens=0, completion_tokens=0,
    )  # fmt: skip
    return token_spans(found.places, reply)


def tokens_of(texts: list[str]) -> list[ReplyToken]:
    return [ReplyToken(text=text, logprob=0.0, data=None, top=()) for text in texts]


def laid_over_tokens(text: str) -> object:
    tokens = tokens_of(["a" * len(text), text])
    return laid_over("a" + "b" + text[2:], 0, tokens), laid_over(text, len(text) // 2, tokens)


def heard(text: str) -> object:
    told = PartialReply()
    for at in range(0, len(text), 3):
        told.add({"choices": [{"delta": {"content": text[at : at + 3], "reasoning": text[at : at + 3]}}]})
    return told.whole


def bytes_of_tokens(text: str) -> object:
    return _texts([ReplyToken(text="", logprob=0.0, data=bytes([0x80 + ord(letter) % 64]), top=()) for letter in text])


class Bytes:
    """A tokenizer with a token for each byte."""

    all_special_ids = (0,)
    added_tokens_decoder: dict[int, object] = {}  # noqa: RUF012

    def get_vocab(self):
        return {}

    def encode(self, text, **_):
        return list(text.encode())

    def decode(self, ids, **_):
        return bytes(ids).decode(errors="replace")


def of_bytes(text: str) -> object:
    return TokenTexts(Bytes()).of([0x80 + ord(letter) % 64 for letter in text])


def cookies_of(text: str) -> object:
    async def app(scope, receive, send):
        Request(scope).cookies.get("demur-reviewer")

    scope = {"type": "http", "headers": [(b"cookie", text.encode("utf-8", "replace"))]}
    return asyncio.run(PlainCookies(app)(scope, None, None))


class Nowhere:
    def write(self, text):
        pass

    def flush(self):
        pass


OWN = OwnHosts(["demur.example"], url="https://demur.example")


def own_host(text: str) -> object:
    OWN.check(text.encode("latin-1", "replace"))


def at_home(text: str) -> object:
    sent = text.encode("latin-1", "replace")
    return OWN.sent_from_here(sent, sent, b",".join([sent] * 3))


def refusal_read(text: str) -> object:
    sent = {"max_tokens": 8, "temperature": 0.5, "logprobs": True, "top_logprobs": 20}
    return [
        change_for(read_refusal(json.dumps({"error": {"message": said, "param": param}}).encode()), sent)
        for said, param in ((text, None), ("refused", text), (f"not supported: {text}", None))
    ]


@cache
def template() -> ChatTemplate:
    folder = str(ROOT / "deploy/models/sums")
    return ChatTemplate(AutoTokenizer.from_pretrained(folder), folder, longest=None)


def steering_read(text: str) -> object:
    return template().read([{"role": "user", "content": text}])


DOORS = Doors(REVIEW)
REDACTION = Redaction(
    RedactConfig.model_validate(  # as docs/security.md has them
        {
            "patterns": {
                "email": {"pattern": r"[\w.+-]+@[\w-]+\.[\w.]+", "replace": "[email]"},
                "phone": {"pattern": r"\+?\d[\d /-]{7,}\d", "replace": "[phone]"},
            }
        }
    )
)
REPORT = SimpleNamespace(id="1", previous_id=None, rows_at=None, made_by="x", extent=SimpleNamespace(model="m"))

ONE_LONG_FIELD = b"\x0a\x80\x80\x08" + bytes(2**17)
"""Without which a message is so short that its fields are not counted."""

READERS: dict[str, Reader] = {
    "a body": Reader(
        lambda text: check_structure(text.encode(), most_keys=10**9),
        (
            repeated('\\"', ":" * 50_001 + '"'),
            repeated('\\"', ":" * 50_001 + '"', '"' + ":" * 60_000),
            repeated("\\\\", ":" * 50_001 + '"'),
            repeated('"",', ":" * 60_000),
            halves(":" * 60_000 + '"', "\\", '"', '\\"'),
            halves("", '"\\', ":" * 60_000, '"'),
        ),
    ),
    "a prediction": Reader(
        lambda text: parse(PredictRequest, text.encode()),
        (
            repeated("\\u0041", '{"model": "', '"}'),
            repeated("\\ud83d\\ude00", '{"input": "', '", "model": "m"}'),
            repeated("9", '{"model": "m", "input": ', "}"),
            repeated("9", '{"model": "m", "input": 0.', "}"),
            repeated("1" * 4000 + ",", '{"model": "m", "input": [', "NaN]}"),
            repeated("[", '{"model": "m", "input": '),
            repeated('{"a":', '{"model": "m", "input": '),
            repeated('"a": 1, ', '{"model": "m", "input": {', '"a": 1}}'),
        ),
    ),
    "a search for labels": Reader(
        LabelSearch(LabelTable(tuple(f"part {at}" for at in range(2000)), "of a test")).find,
        (repeated("part 1 "), repeated("a b "), repeated("é"), repeated("花"), repeated("ab")),
    ),
    "an outcome": Reader(
        lambda text: parse(OutcomeRequest, text.encode()),
        (
            repeated("a", '{"label": "', '"}'),
            repeated('"", ', '{"label": [', '"a"]}'),
            repeated("7, ", '{"label": [', '"a"]}'),
            lambda n: "{" + ", ".join(f'"k{at}": 1' for at in range(min(n // 9, 40_000))) + "}",
        ),
    ),
    "a source": Reader(reads_as_review, (repeated("\ufdfa"), repeated("\u0301", "r"), repeated("\u1160"))),
    "X-Request-Timeout": Reader(seconds_of, (repeated("0", ".", "x"),)),
    "X-Request-Id": Reader(lambda text: SANE.fullmatch(text.encode()), (repeated("a", end=" "),)),
    "an Idempotency-Key": Reader(checked_key, (repeated("a", end=" "), repeated("a", end="\n"))),
    "a key": Reader(read_token, (repeated("demur_"), repeated("a", "demur_aaaaaaaaaa_"))),
    "Authorization": Reader(lambda text: _token(text, None), (repeated(" ", "Bearer", "demur_"), repeated("Bearer "))),
    "a path": Reader(
        lambda text: DOORS.needs("GET", text), (repeated("/", "/cases/"), repeated("a", "/v1/cases/", "/events/"))
    ),
    "a cookie": Reader(lambda text: cookie(text, "demur-session"), (repeated(";"), repeated("demur-session=a;"))),
    "cookies, as the framework reads them": Reader(
        cookies_of,
        (repeated('\\"', 'a="', '"'), repeated("\\1", 'a="', '"'), repeated("\\", 'a="', '"'), repeated("a=1;")),
    ),
    "Origin": Reader(at_home, (repeated("http://", "http://"), repeated("[", "http://"), repeated("@", "http://"))),
    "Host": Reader(own_host, (repeated("["), repeated("a:"), repeated("1.", "["), repeated("0", "a:", "x"))),
    "what an endpoint refuses": Reader(
        refusal_read,
        (
            repeated("aA"),
            repeated("[.", "a"),
            repeated("1 "),
            repeated("at most "),
            repeated("max_tokens "),
            repeated("]"),
        ),
    ),
    "a cell of a spreadsheet": Reader(
        lambda text: from_cell(as_cell(text)),
        (
            repeated("'"),
            repeated(" "),
            repeated("1", end="e"),
            repeated("1", "+", "."),
            repeated("\u200b"),
            repeated("'="),
        ),
    ),
    "characters that hide": Reader(
        lambda text: spelled_out(text, repr),
        (
            repeated("\u200d"),
            repeated("\U0001f3f4\U000e0067"),
            repeated("\U000e0067"),
            repeated("\ufe0f"),
            repeated("\u200c\u200d"),
        ),
    ),
    "a prompt with what steers a model": Reader(
        steering_read, (repeated("<|im_end|>"), repeated("<|im_"), repeated("<"), repeated("|"))
    ),
    "a name": Reader(as_name, (repeated(" a"),)),
    "who is who": Reader(lambda text: people_of([text]), (repeated("="),)),
    "an error that repeats what was sent": Reader(
        lambda text: problem_of(InvalidRequest(text)), (repeated("a"), repeated(".a", "a"), repeated("_", end=":"))
    ),
    "a log line": Reader(
        lambda text: JsonStream(Nowhere(), "x").write(text + "\n"),
        (
            repeated("pid=1", "("),
            repeated("pid=1 ", "(", ")"),
            repeated("\x1b[0m"),
            repeated("\x1b[;"),
            halves("", "\x1b[1m", "(pid=1)", "\x1b[0m"),
        ),
    ),
    "a log that comes bit by bit": Reader(in_pieces(lambda: JsonStream(Nowhere(), "x").write), (repeated("a"),)),
    "text for a terminal": Reader(printable, (repeated("\x1b"), repeated("\u202e"))),
    "a report": Reader(
        lambda text: with_bar(text, REPORT, "", cases_at="/review/"),
        (
            repeated("<body"),
            repeated("<body "),
            repeated("</head"),
            repeated('<figure data-figure="'),
            repeated('<figure data-figure="a">'),
            repeated('<div class="box" data-table="'),
            repeated('<span data-cases="'),
            repeated('<span data-cases="">'),
        ),
    ),
    "an input that is redacted": Reader(
        REDACTION.redacted,
        (
            repeated("a@"),
            repeated("a@a.a "),
            repeated("1/"),
            repeated("+1"),
            repeated("12345678/", end="a"),
            repeated("a."),
        ),
    ),
    "an input on a page": Reader(glance, (repeated("a\n"),)),
    "nested lists": Reader(
        lambda text: array_of([[[letter == "x" for letter in text]], *([] for _ in text[::64])]), (repeated("a"),)
    ),
    "an export of Label Studio": Reader(
        lambda text: list(annotations_of(rows_of_export(text), {}, {})),
        (
            repeated('{"annotations": [{"result": []}]}, ', "[", "{}]"),
            repeated("0, ", '[{"annotations": [', "0]}]"),
            repeated('{"created_at": 1}, ', '[{"annotations": [', "0]}]"),
        ),
    ),
    "a message over gRPC": Reader(
        lambda text: check_fields(ONE_LONG_FIELD + b"\x2a\xff\xff\xff\x7f" + text.encode()),
        (repeated("\x2a\x00"), repeated("\x2a")),
    ),
    "texts as bytes": Reader(
        lambda text: tensor_from_bytes("a", "BYTES", [len(text) // 4], memoryview(bytes(len(text))), place="x"),
        (repeated("a"),),
    ),
    "a reply with a letter": Reader(
        lambda text: letter_in(text, 5),
        (
            repeated("answer "),
            repeated(" ", "answer", "is"),
            repeated("option "),
            repeated(" ", "answer would", "x"),
            repeated("answer is option letter "),
            repeated("answer: ("),
            repeated("answer: A" + " " * 50),
            repeated("answer would   must   should "),
            repeated("* _`\"'"),
        ),
    ),
    "a reply with a name": Reader(
        names_in, (repeated("a"), repeated("a "), repeated("+a"), repeated("ab "), repeated("."))
    ),
    "a reply that is compared": Reader(wanted_in, (repeated("a"), repeated("a "), repeated("ab"), repeated("."))),
    "the text of a reply": Reader(same_text, (repeated("."), repeated(" ."), repeated("!.", "a"))),
    "the text of a sample": Reader(sampled_scores.same_text, (repeated(" ."), repeated(".", "a"))),
    "a number in a reply": Reader(
        last_number,
        (
            repeated(",111", "1"),
            repeated(",111", "1", "1"),
            repeated("1,"),
            repeated("1.1"),
            repeated("1e"),
            repeated("1", end="e999"),
            repeated("1,111e1 "),
            repeated("-"),
        ),
    ),
    "a side": Reader(read_side, (repeated("input "), repeated(" ", "input", "C"), repeated("input A item B "))),
    "labels on lines": Reader(
        listed,
        (
            repeated("- label 1\n"),
            repeated("label 1, label 2;"),
            repeated("1. "),
            repeated(", "),
            repeated("label 1 - "),
            repeated("label 1\r\n"),
            repeated("\u2028label 7 (x"),
        ),
    ),
    "labels as JSON": Reader(
        lambda text: json_read(text, LABELS),
        (
            repeated('"label 1": 1, ', "{", '"a": 1}'),
            repeated("1", '{"label 1": ', "}"),
            lambda n: "{" + ", ".join(f'"label {at}": 1' for at in range(n // 14)) + "}",
        ),
    ),
    "a confidence": Reader(
        parse_confidence_rating,
        (
            repeated("[1"),
            repeated("[ "),
            repeated("1", "[", "x"),
            repeated("1", "[1.", "x"),
            repeated(" ", "[1", "x"),
            repeated("1e"),
            repeated(".1"),
            repeated("1-1"),
            repeated("1,1"),
        ),
    ),
    "confidences": Reader(
        parse_joint_confidences,
        (
            repeated("`"),
            halves("", "`", "x", "`"),
            halves("", "`", "x", "`", "x"),
            repeated("``", "```", "x"),
            repeated("~", end="`"),
            repeated("[", "```json", "```"),
            repeated('{"a":', "", ""),
        ),
    ),
    "a trace": Reader(trace_features, (repeated("wait "), repeated("?"), repeated("<think>"), repeated("w"))),
    "a reply with a trace": Reader(
        lambda text: split(text, opened=None), (repeated("<think>"), repeated("</think"), repeated(" ", "<think>"))
    ),
    "a reply that comes bit by bit": Reader(
        in_pieces(lambda: ReasoningStream(stop=("\n\n", "abab")).add),
        (
            repeated("a"),
            repeated(" "),
            repeated(" ", "<think>a"),
            repeated(" ", "<think>"),
            repeated("a", "<think>"),
            repeated("</think", "<think>"),
            repeated(" ", "<think></think>"),
            repeated("aba"),
            repeated("<"),
        ),
    ),
    "a stream of an endpoint": Reader(heard, (repeated("a"),)),
    "tokens of an endpoint": Reader(laid_over_tokens, (repeated("a"), repeated("ab"))),
    "tokens that are bytes": Reader(bytes_of_tokens, (repeated("a"),)),
    "tokens that are no characters": Reader(of_bytes, (repeated("a"),)),
    "a reply put together": Reader(
        lambda text: put_together(
            list(text),
            logprobs=None,
            top_logprobs=None,
            opened=False,
            stop=("b",),
            finish_reason="stop",
            prompt_tokens=0,
            completion_tokens=0,
        ),
        (repeated("a"), repeated("<think>"), repeated("\n", "<think>")),
    ),
    "the address of a database": Reader(
        DSN.fullmatch,
        (
            repeated("a", "postgres://"),
            repeated("%41", "postgres://", "%"),
            repeated(",", "postgres://"),
            repeated("a,", "postgres://", " "),
            repeated("[a],", "postgres://", " "),
            repeated("a:1,", "postgres://", " "),
            repeated("a:", "postgres://", "@"),
            repeated("/", "postgres://a"),
        ),
    ),
    "the name of a metric": Reader(
        _VARIANT.fullmatch, (repeated("_at_1"), repeated("_before"), repeated("1", "a_at_"))
    ),
    "a code": Reader(IMDRF_CODE.fullmatch, (repeated("0", "A"),)),
}
