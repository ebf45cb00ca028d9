"""Hostile bodies, headers and addresses at every door: nothing ends in a 500."""

import base64
import json
import os
import struct
import zlib

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from demur.serve.contract.pictures.formats import FORMATS
from demur.serve.web.login.browser_guard import UPLOADS
from tests.fuzz.served import MOST_BYTES, mounted, served
from tests.serve.contract.pictures.made import telling
from tests.serve.forms import FORM, form, part

pytestmark = pytest.mark.slow

INPUTS = int(int(os.environ.get("DEMUR_FUZZ_INPUTS", "1000")) * 0.96)

ROW = {"age": 40, "children": 2, "pays": True, "smoker": False, "job": "clerk", "note": "a"}

GOOD = {
    "/v1/predict": {"model": "words", "input": "a text", "group": "g", "cluster": "c", "review": {"priority": 1}},
    "/v1/predict/batch": {"items": [{"model": "pixels", "input": [[0, 1], [1, 0]]}, {"model": "writer", "input": "a"}]},
    "/v1/predict?of=a-row": {"model": "rows", "input": ROW},
    "/v1/predict/batch?of=rows": {
        "items": [{"model": "rows", "input": list(ROW.values())}, {"model": "numbers", "input": {"a": 1, "b": True}}]
    },
    "/v2/models/numbers/infer": {
        "inputs": [{"name": "input", "datatype": "FP64", "shape": [2, 2], "data": [[0.5, 1], [2, 0]]}]
    },
    "/v2/models/rows/infer": {
        "inputs": [{"name": "input", "datatype": "BYTES", "shape": [1], "data": [json.dumps(ROW)]}]
    },
    "/v1/predictions/{id}/outcome": {"label": "7", "source": "lab", "author": "ada"},
    "/v1/outcomes/batch": {"items": [{"id": "{id}", "label": "7", "source": "lab", "author": "ada"}, {"id": "{id}"}]},
    "/v1/releases/words/promote": {"artifact": "words-1", "why": "because"},
    "/v1/releases/words/rollback": {"why": "because"},
    "/v1/releases/words/shadow": {"artifact": "words-1", "why": "because"},
    "/v1/releases/words/canary": {"artifact": "words-1", "share": 0.1, "held_between": [0, 0.5], "why": "because"},
    "/v1/releases/words/jobs": {"kind": "fit", "since": "2026-11-21T08:30:00Z", "promote": True, "why": "because"},
    "/v1/chat/completions": {"model": "writer", "messages": [{"role": "user", "content": "hello"}], "stream": False},
    "/review/v1/cases/next": {"model": "words"},
    "/review/v1/cases/{id}/claim": {},
    "/review/v1/cases/{id}/heartbeat": {"token": 1, "draft": {"label": "7", "reason": "r", "comment": "c"}},
    "/review/v1/cases/{id}/answer": {"token": 1, "label": "7", "comment": "c"},
    "/review/v1/cases/{id}/undo": {"token": 1},
    "/review/v1/cases/{id}/release": {"token": 1},
    "/review/v1/cases/{id}/withdraw": {"why": "because"},
    "/review/v1/import": [
        {
            "id": 1,
            "data": {"demur_case": "{id}"},
            "annotations": [
                {
                    "id": 1,
                    "completed_by": {"email": "ada@example.org"},
                    "lead_time": 3.5,
                    "result": [
                        {"from_name": "label", "to_name": "input", "type": "choices", "value": {"choices": ["7"]}}
                    ],
                }
            ],
        }
    ],
    "/audit/v1/audits": {"model": "words", "window_days": 7},
    "/audit/v1/alarms/1/undo": {"why": "it is safe"},
}
FORMS = {
    "/review/hello": {"name": "ada", "back": "/review/"},
    "/review/next": {"model": "words"},
    "/review/cases/{id}/answer": {"token": "1", "label": "7", "comment": "c"},
    "/review/cases/{id}/withdraw": {"why": "because"},
    "/audit/hello": {"name": "ada", "back": "/audit/"},
    "/audit/monitors/alarms/1/undo": {"why": "because", "name": "ada"},
}
PAGES = (
    "/review/", "/review/overview", "/review/cases/{id}", "/review/v1/cases", "/review/v1/export",
    "/review/v1/progress",
    "/audit/", "/audit/reports/{id}/compare", "/audit/monitors", "/audit/v1/reports", "/v1/predictions/{id}",
    "/v1/models/x", "/v1/artifacts/words", "/v1/artifacts/words/words-1", "/v1/releases/words",
    "/v1/releases/words/jobs", "/v1/jobs/{id}",
)  # fmt: skip
PARAMETERS = ("show", "model", "group", "mine", "page_number", "after", "since", "status", "limit", "offset", "format",
              "other", "wait", "window", "person", "input", "overdue")  # fmt: skip


def prepared_picture(side: int) -> str:
    """A PNG of a few kilobytes that says how large it is only after a chunk in which zeros stand."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = bytes(1 + side // 8) * side
    png = b"\x89PNG\r\n\x1a\n" + chunk(b"tEXt", bytes(16))
    png += chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    png += chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")
    return json.dumps("data:image/png;base64," + base64.b64encode(png).decode())


DEEP = "[" * 5000 + "]" * 5000
NESTED = '{"a":' * 3000 + "1" + "}" * 3000
TOKENS = [
    "NaN", "Infinity", "-Infinity", "1e400", "-1e400", "1e-400", "9" * 400, "-" + "9" * 5000, "18446744073709551616",
    "9223372036854775808", "1.0", "-0.0", "null", "true", "[]", "{}", '""', '"\\u0000"', '"\\ud800"',
    '"\\udc00\\ud800"',
    '"\\uffff"', '"\x00"', '"\t"', '"\\u202e"', '"' + "a" * 5000 + '"', DEEP, NESTED, "[" * 100,
    "[" + "0," * 20000 + "0]",
    '{"a":1,"a":2}', '{"__class__":"x","__proto__":{}}', "[[[1],[2]],[[3]]]", "'a'", "0x10", "01", "tru", "//", "",
    '"data:image/png;base64,AAAA"', '"data:image/png;base64,iVBORw0KGgo="', '"{{7*7}}"',
    prepared_picture(64), prepared_picture(8000), "[" * 990 + "]" * 990,
    "[" * 300 + "1" + "]" * 300, '"${env:HOME}"', '"%s%n"',
    '"' + "\\\\" * 100 + '"', '"0000-00-00"', '"9999-12-31T23:59:59Z"', '"-1"',
]  # fmt: skip
HEADERS = ("Idempotency-Key", "X-Demur-Reviewer", "X-Request-Timeout", "Content-Type", "Cookie", "Origin", "Accept",
           "If-None-Match", "Range", "X-Forwarded-Host", "Sec-Fetch-Site", "Host", "Content-Encoding",
           "X-Request-Id")  # fmt: skip

USUAL = {
    "Idempotency-Key": ["k1", "k2", "k3", "k4", "order 7", ""],
    "X-Request-Timeout": ["0.001", "5", "1e9", "-1"],
    "Content-Type": ["application/json", "text/plain", "multipart/form-data; boundary=x", "application/octet-stream"],
    "Sec-Fetch-Site": ["same-origin", "cross-site", "none"],
    "Origin": ["http://testserver", "null", "http://evil.example", "http://["],
    "Host": ["testserver", "evil.example", "[::1]:8000", "127.0.0.1:1:2", ""],
}
"""Values with which a request gets further than with those that nobody sends."""

values = st.one_of(
    st.sampled_from(TOKENS),
    st.text(max_size=20).map(lambda text: json.dumps(text)),
    st.text(max_size=20).map(lambda text: json.dumps(text, ensure_ascii=False)),
    st.integers().map(str),
    st.floats().map(repr),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
)
header_values = st.one_of(
    st.text(st.characters(min_codepoint=1, max_codepoint=255, exclude_characters="\r\n"), max_size=40),
    st.sampled_from(
        ["a" * 7000, "%00", "%ff%fe", "%F0%9F%98%80", "NaN", "-1", "1e400", "0", "ada", "null", "\x7f", " "]
    ),
)
queries = st.dictionaries(
    st.sampled_from(PARAMETERS),
    st.text(max_size=12)
    | st.sampled_from(["0", "-1", "1e9", "99999999999999999999", "NaN", "%00", "\x00", "7=ada", "csv"]),
    max_size=3,
)


@st.composite
def changed(draw, good):
    """The text of a body with one or two of its values, or its keys, replaced by something else; or cut off."""
    text = json.dumps(good)
    for _ in range(draw(st.integers(0, 2))):
        places = _places(text)
        at, until = draw(st.sampled_from(places))
        text = text[:at] + draw(values) + text[until:]
        if len(text) > MOST_BYTES:
            break
    how = draw(st.integers(0, 9))
    if how == 0:
        text = text[: draw(st.integers(0, len(text)))]
    body = text.encode("utf-8", "surrogatepass")
    if how == 1:
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=4)) + body[at:]
    return body


def _places(text):
    """Where values and keys of a JSON text stand; the whole text is one."""
    found, stack, at = [(0, len(text))], [], 0
    while at < len(text):
        if text[at] in "[{":
            stack.append(at)
        elif text[at] in "]}" and stack:
            found.append((stack.pop(), at + 1))
        elif text[at] == '"':
            end = at + 1
            while end < len(text) and text[end] != '"':
                end += 1 + (text[end] == "\\")
            found.append((at, min(end + 1, len(text))))
            at = end
        elif text[at].isdigit():
            end = at
            while end < len(text) and text[end].isdigit():
                end += 1
            found.append((at, end))
            at = end - 1
        at += 1
        if len(found) > 60:
            break
    return found


PICTURES = st.sampled_from([telling(name) for name in ("PNG", "JPEG", "WEBP")])


@st.composite
def damaged(draw, files=PICTURES, most=3):
    """A file with some of its bytes replaced, left out or put in, or cut off; sometimes as it is."""
    file = bytearray(draw(files))
    for _ in range(draw(st.integers(0, most))):
        at = draw(st.integers(0, len(file)))
        file[at : at + draw(st.integers(0, 4))] = draw(st.binary(max_size=4))
    return bytes(file[: draw(st.integers(0, len(file)))] if draw(st.integers(0, 9)) == 0 else file)


parts = st.one_of(
    st.builds(part, st.just("file"), damaged() | st.binary(max_size=9)),
    st.builds(part, st.just("model"), st.sampled_from(["pixels", "words", "vendor", "nobody", ""])),
    st.builds(part, st.sampled_from(["group", "cluster", "colour", '"', "\u0000"]), st.text(max_size=9)),
    st.builds(part, st.just("request"), changed({"model": "pixels", "review": {"priority": 1}, "input": 7})),
    st.binary(max_size=30),
)
good_parts = st.tuples(st.just(part("model", "pixels")), st.builds(part, st.just("file"), damaged()))


@st.composite
def with_pictures(draw):
    """The path, the content type and the body of a request with a damaged picture."""
    file = draw(damaged())
    kind = draw(st.sampled_from(["png", "jpeg", "webp"])) if draw(st.booleans()) else kind_of(file)
    url = f"data:image/{kind};base64,{base64.b64encode(file).decode()}"
    chat = {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]}]}
    bodies = {
        "/v1/predict": [
            {"model": "pixels", "input": url},
            {"model": "seer", "input": chat},
            {"model": "vendor", "input": draw(st.sampled_from([url, chat])), "output": {"probabilities": [1, 0]}},
        ],
        "/v1/chat/completions": [{"model": "seer", **chat, "stream": draw(st.booleans())}],
    }
    path = draw(st.sampled_from(["/v1/predict", "/v1/chat/completions", *UPLOADS]))
    if draw(st.booleans()) and path in bodies:
        return path, "application/json", json.dumps(draw(st.sampled_from(bodies[path]))).encode()
    whole = form(*draw(good_parts | st.lists(parts, max_size=4)))
    return draw(st.sampled_from(UPLOADS)), FORM, draw(st.just(whole) | damaged(files=st.just(whole)))


def kind_of(file):
    return next((one.media_type.removeprefix("image/") for one in FORMATS if one.begins(file)), "png")


@pytest.fixture
def site(database):
    apps, known = served(database)
    with TestClient(mounted(apps), raise_server_exceptions=False, follow_redirects=False) as client:
        yield client, known


def test_nothing_hostile_ends_in_a_500(site):
    client, known = site
    ids = st.sampled_from([str(one) for one in (*known.records, *known.reports)] + ["7", "%00", "../x", "0" * 36])
    tried, failed = {}, []

    @st.composite
    def requests(draw):
        headers = {"X-Demur-Reviewer": "ada"}
        for _ in range(draw(st.sampled_from([0, 0, 1, 1, 2, 3]))):  # together, and with any body
            name = draw(st.sampled_from(HEADERS))
            headers[name] = draw(st.sampled_from(USUAL[name]) if name in USUAL else header_values)
        which = draw(st.integers(0, 12))
        told = {"params": draw(queries)} if which in (8, 9) else {}
        if which < 7:
            door = draw(st.sampled_from(sorted(GOOD)))
            known_id = draw(ids)
            good = json.loads(json.dumps(GOOD[door]).replace("{id}", known_id))
            told |= {"method": "POST", "content": draw(changed(good))}
        elif which > 9:
            door, headers["Content-Type"], content = draw(with_pictures())
            known_id = ""
            told |= {"method": "POST", "content": content}
        elif which == 7:
            door = draw(st.sampled_from(sorted(FORMS)))
            words = st.text(max_size=30) | st.sampled_from(["1", "7", "\x00", "a" * 3000])
            told |= {"method": "POST", "data": {k: draw(words) for k in FORMS[door] if draw(st.integers(0, 4))}}
            known_id = draw(ids)
        else:
            door, known_id = draw(st.sampled_from(PAGES)), draw(ids)
            told |= {"method": draw(st.sampled_from(["GET", "GET", "GET", "HEAD", "DELETE", "POST"]))}
            told["params"] = {name: value for name, value in told["params"].items() if name != "wait" or value != "1e9"}
        return door.replace("{id}", known_id), headers, told

    @settings(
        max_examples=INPUTS,
        deadline=None,
        database=None,
        derandomize=INPUTS < 10_000,
        phases=(Phase.generate,),  # what failed is told as it was
        suppress_health_check=list(HealthCheck),
    )
    @given(requests())
    def ask(request):
        path, headers, told = request
        sent = {name.encode(): value.encode("latin-1") for name, value in headers.items()}
        answer = client.request(told.pop("method"), path, headers=sent, **told)
        tried[answer.status_code] = tried.get(answer.status_code, 0) + 1
        if answer.status_code in (500, 502):
            failed.append((answer.status_code, path, headers, str(told)[:2000]))
        if answer.status_code == 503:
            assert "retry-after" in answer.headers
        if answer.headers.get("content-type") == "application/json" and answer.status_code >= 400 and answer.content:
            assert answer.json()["error"]

    ask()
    assert not failed, (len(failed), failed[:5])
    print(f"{sum(tried.values()):,} hostile inputs: {dict(sorted(tried.items()))}")
