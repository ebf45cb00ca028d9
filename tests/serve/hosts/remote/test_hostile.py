"""A server whose replies are wrong, endless or hostile: what comes of it is a held row with a reason, in time and in
little memory."""

import asyncio
import gzip
import json
import resource
import time

import pytest
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from demur.uncertainty.readings import outages_in
from tests.serve.hosts.remote.conftest import configured, run, why


def oip(**changes):
    tensor = {"name": "probabilities", "datatype": "FP64", "shape": [1, 2], "data": [0.25, 0.75], **changes}
    return JSONResponse({"model_name": "cancer", "outputs": [tensor]})


def text(content):
    return Response(content, media_type="application/json")


async def _zeros():
    while True:
        yield b"[0.0, " * 10_000
        await asyncio.sleep(0)


async def _drip():
    yield b'{"outputs": ['
    while True:
        await asyncio.sleep(0.05)
        yield b" "


def bomb():
    return Response(gzip.compress(b"[" + b"0," * 10**7), headers={"Content-Encoding": "gzip"})


BAD_TENSORS = {
    "another width": (lambda: oip(shape=[1, 3], data=[0.2, 0.3, 0.5]), "gave [1, 3]; it should give [1, 2]"),
    "another number of rows": (lambda: oip(shape=[2, 2], data=[0.5] * 4), "there are 2 entries for 1 inputs"),
    "more rows than fit": (lambda: oip(shape=[2**40, 2**20]), "at most 1,048,576 are taken"),
    "fewer numbers than its shape says": (lambda: oip(data=[0.5]), "there are 1 elements; the shape says 1 x 2"),
    "a shape of nothing": (lambda: oip(shape=[]), "a tensor has 1 to 8 dimensions"),
    "a shape of texts": (lambda: oip(shape=["1", "2"]), "no name, datatype or shape that can be read"),
    "a negative size": (lambda: oip(shape=[-1, 2]), "the size of each dimension is from 1"),
    "an unknown type": (lambda: oip(datatype="BF16"), "'BF16' is not taken; there are: BOOL, UINT8"),
    "texts for numbers": (lambda: oip(data=["a", "b"]), "there are elements that are no FP64"),
    "a tensor of texts": (lambda: oip(datatype="BYTES", data=["a", "b"]), "is something other than numbers in it"),
    "objects for numbers": (lambda: oip(data=[{}, {}]), "there are elements that are no FP64"),
    "ragged lists": (lambda: oip(data=[[0.5], [0.5, 0.5]]), "its lists differ in length"),
    "a probability above 1": (lambda: oip(data=[0.5, 7.5]), "a probability is not between 0 and 1"),
    "probabilities that come to 2": (lambda: oip(data=[1.0, 1.0]), "the probabilities of a row come to 2"),
    "no data": (lambda: oip(data=None), "a list is wanted"),
    "data elsewhere": (lambda: oip(parameters={"binary_data_size": 16}), "binary_data_size is not what came"),
    "no outputs": (lambda: JSONResponse({"predictions": [[0.5, 0.5]]}), "without `outputs`"),
    "an error in the place of outputs": (lambda: JSONResponse({"error": "out of memory"}), "'out of memory'"),
    "a list": (lambda: JSONResponse([1, 2]), "without `outputs`"),
    "outputs that are none": (lambda: JSONResponse({"outputs": [3]}), "without `outputs`"),
    "very many tensors": (lambda: JSONResponse({"outputs": [{}] * 2000}), "2,000 tensors; at most 1,000"),
    "no JSON": (lambda: text(b"oh \x1b[31mno"), "is not JSON, which begins 'oh \\\\x1b[31mno'"),
    "nothing": (lambda: text(b"  "), "is not JSON, which is empty"),
    "nothing, as 204": (lambda: Response(status_code=204), "answered 204, which brings no prediction"),
    "202": (lambda: JSONResponse({"job": 1}, 202), "answered 202, which brings no prediction"),
    "deep lists": (lambda: text(b'{"outputs": ' + b"[" * 200_000), "is not JSON"),
    "deep objects": (lambda: text(b'{"a":' * 100_000), "too large: the body has"),
    "very many small lists": (lambda: text(b'{"outputs": [' + b"[]," * 1_500_000 + b"[]]}"), "too large: the body has"),
    "very many keys": (
        lambda: text(b"{" + b",".join(b'"%d":0' % at for at in range(60_000)) + b"}"),
        "the body has 60,000 keys",
    ),
    "no Unicode": (lambda: text(b'{"outputs": "\\ud800"}'), "without `outputs`"),
    "bytes that never end": (lambda: StreamingResponse(_zeros(), media_type="application/json"), "sent more than"),
}


@pytest.mark.parametrize(("reply", "message"), BAD_TENSORS.values(), ids=BAD_TENSORS)
def test_what_cannot_be_read_holds_and_says_why(server, some_rows, reply, message):
    server.instead = lambda body: reply() if body else None
    output = run(configured(server.url, output="probabilities"), some_rows[0][:1])
    assert message in why(output)
    assert why(output).isprintable()
    assert outages_in(output) == [None]  # the server is there


@pytest.mark.parametrize("data", [[None, None], "[NaN, NaN]", "[1e999, 0]", "[Infinity, 0]"])
def test_a_number_that_is_none_holds_its_row_alone(server, some_rows, data):
    def reply(body):
        if body is None:
            return None
        written = json.dumps(data) if isinstance(data, list) else data
        shape = '"name": "probabilities", "datatype": "FP64", "shape": [2, 2]'
        return text(f'{{"outputs": [{{{shape}, "data": [{written}, [0.25, 0.75]]}}]}}'.encode())

    server.instead = reply
    output = run(configured(server.url), some_rows[0][:2])
    assert output.usable().tolist() == [False, True]
    assert len([body for body in server.asked if body]) <= 3


OUTAGES = {
    "a page": (lambda: HTMLResponse("<html>Welcome"), False, "a web page (text/html, which begins"),
    "a page that says it is JSON": (lambda: text(b"<!doctype html>"), False, "see whether host.url is right"),
    "a redirect": (lambda: RedirectResponse("http://127.0.0.1:9/elsewhere"), False, "redirects are not followed"),
    "401": (lambda: JSONResponse({"detail": "who are you"}, 401), False, "who are you; see host.headers_env"),
    "404": (lambda: JSONResponse({"error": "no such model"}, 404), False, "no such model; see host.url and host.model"),
    "503": (lambda: JSONResponse({"error": "starting"}, 503, {"Retry-After": "40"}), True, "starting"),
    "429": (lambda: Response("slow down", 429), True, "slow down"),
    "a bomb": (bomb, False, "sent a reply in the encoding 'gzip', which was not asked for"),
}


@pytest.mark.parametrize(("reply", "passes", "message"), OUTAGES.values(), ids=OUTAGES)
def test_some_replies_are_outages(server, some_rows, reply, passes, message):
    server.instead = lambda body: reply() if body else None
    output = run(configured(server.url), some_rows[0][:2])
    outages = outages_in(output)
    assert [outage.passes for outage in outages] == [passes, passes]
    assert message in outages[0].why
    assert server.url in outages[0].why
    assert len([body for body in server.asked if body]) == 1  # an outage is not asked about row by row
    assert not output.usable().any()


def test_a_time_that_a_server_names_is_told_on(server, some_rows):
    server.instead = lambda body: JSONResponse({}, 503, {"Retry-After": "40"}) if body else None
    began = time.monotonic()
    (outage,) = outages_in(run(configured(server.url, retries=5), some_rows[0][:1]))
    assert outage.retry_after == 40
    assert time.monotonic() - began < 4  # nobody waits longer than there is time


@pytest.mark.slow
def test_what_fails_in_passing_is_asked_again(server, some_rows):
    def twice(body):
        failing = body and len([one for one in server.asked if one]) < 3
        return JSONResponse({"error": "starting"}, 503) if failing else None

    server.instead = twice
    assert run(configured(server.url, retries=2), some_rows[0]).usable().all()
    server.asked.clear()
    assert not run(configured(server.url, retries=1), some_rows[0]).usable().any()


@pytest.mark.slow
@pytest.mark.parametrize("reply", [lambda: StreamingResponse(_drip()), lambda: asyncio.sleep(60)])
def test_a_slow_server_is_given_up_in_time(server, some_rows, reply):
    server.instead = lambda body: reply() if body else None
    began = time.monotonic()
    (outage,) = outages_in(run(configured(server.url, timeout_seconds=0.6, retries=5), some_rows[0][:1]))
    assert time.monotonic() - began < 3
    assert "gave no whole reply within 0.6 s" in outage.why


def test_nobody_there_is_an_outage(some_rows):
    (outage,) = outages_in(run(configured("http://127.0.0.1:9"), some_rows[0][:1]))
    assert outage.passes
    assert "cannot be reached" in outage.why


def test_a_secret_that_a_server_repeats_is_shown_to_nobody(server, some_rows, monkeypatch):
    monkeypatch.setenv("CANCER_KEY", "Bearer s3cret-of-ours")
    server.instead = lambda body: JSONResponse({"error": f"not {server.headers[-1]['authorization']}"}, 500)
    output = run(configured(server.url, headers_env={"Authorization": "CANCER_KEY"}), some_rows[0][:1])
    assert server.headers[-1]["authorization"] == "Bearer s3cret-of-ours"
    assert "not (the key)" in why(output)
    assert "s3cret" not in why(output)


def test_what_a_server_sends_costs_little_memory(server, some_rows):
    """Of a reply without end, no more is kept than `reply_bytes`."""
    server.instead = lambda body: StreamingResponse(_zeros(), media_type="application/json") if body else None
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert not run(configured(server.url, reply_bytes=2**22), some_rows[0]).usable().any()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # KiB


def test_a_poisonous_input_holds_only_itself(server, classifier, some_rows):
    inputs, array = some_rows

    def raises(rows):
        if (rows[:, 0] == array[2, 0].astype("f4")).any():
            raise ValueError("a negative radius")
        return classifier.predict_proba(rows)

    server.predict = raises
    output = run(configured(server.url), inputs)
    assert output.usable().tolist() == [True, True, False, True, True]
    assert "answered 500: a negative radius" in output.why_unusable()[2]
