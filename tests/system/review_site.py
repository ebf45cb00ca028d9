"""Review pages over a database of their own, without Ray: what they show, and how a test waits and presses."""

import re
import socket
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import uvicorn
from fastapi import FastAPI

from demur.review import cases, queue
from demur.serve.config.file import Config
from demur.serve.database.opening import open_database
from demur.serve.web.review.app import console_app
from demur.serve.web.review.service import ReviewService
from demur.traffic import log
from tests.conftest import entry, new_case

READY = "body[data-ready]"

CLASSIFIER = {
    "host": {"kind": "classifier", "checkpoint": "not/loaded/by/pages"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "threshold", "limit": 0.3},
}
TAGGER = {**CLASSIFIER, "scores": ["binary_entropy"], "confidence": {"score": "binary_entropy"}}
WRITER = {
    **CLASSIFIER,
    "host": {"kind": "transformers", "checkpoint": "not/loaded/by/pages"},
    "scores": ["improbability"],
    "confidence": {"score": "improbability"},
}
CAUSES = [f"{how} {what}" for how in ("late", "broken", "missing") for what in ("parcel", "refund", "invoice", "login")]
TAGS = [*CAUSES, "no parcel", "parcel", "A/B test"]
TREE = {"A01": ["A"], "A0101": ["A01"], "A0102": ["A01"], "B01": ["B"]}
MODELS = {
    "digits": {**CLASSIFIER, "task": {"kind": "multiclass", "labels": list("0123456789")}},
    "mood": {**CLASSIFIER, "task": {"kind": "multiclass", "labels": ["good", "fair", "bad"]}},
    "cause": {**CLASSIFIER, "task": {"kind": "multiclass", "labels": CAUSES}},
    "claims": {**CLASSIFIER, "task": {"kind": "binary", "labels": ["no", "yes"]}},
    "topics": {**TAGGER, "task": {"kind": "multilabel", "labels": ["billing", "delivery", "returns"]}},
    "tags": {**TAGGER, "task": {"kind": "multilabel", "labels": TAGS}},
    "codes": {**TAGGER, "task": {"kind": "multilabel", "labels": ["A0101", "A0102", "B01"], "tree": TREE}},
    "letters": {**WRITER, "task": {"kind": "choice"}},
    "writer": {**WRITER, "task": {"kind": "generate"}},
}

SENTENCE = "The parcel came on time, but one of the two cups was broken."
TICKED = {"prediction_set": ["delivery"], "top_labels": ["delivery", "returns"], "label_confidence": [0.9, 0.4]}
KINDS = {
    "picture": {"model": "digits", "input": [[0.0, 0.5], [1.0, 0.0]]},
    "large picture": {"model": "digits", "input": [[(x ^ y) / 511 for x in range(300)] for y in range(400)]},
    "text": {"model": "mood", "input": SENTENCE, "prediction": "fair", "prediction_set": ["fair", "bad"]},
    "long text": {"model": "mood", "input": "\n\n".join([SENTENCE * 8] * 9), "prediction": "bad"},
    "list": {"model": "cause", "input": SENTENCE * 9, "prediction": "broken parcel", "prediction_set": CAUSES[:2]},
    "ticks": {"model": "topics", "input": SENTENCE, "prediction": ["delivery"], **TICKED},
    "many ticks": {"model": "tags", "input": SENTENCE * 60, "prediction": ["parcel"], **TICKED},
    "tree": {"model": "codes", "input": SENTENCE, "prediction": ["A"], **TICKED, "prediction_set": ["A"]},
    "question": {
        "model": "letters",
        "input": {"question": "What is 6 * 7?", "options": ["41", "42", "43"]},
        "prediction": "B",
        "prediction_set": ["B", "C"],
    },
    "chat": {
        "model": "writer",
        "input": {"messages": [{"role": "user", "content": "2 + 2?"}, {"role": "assistant", "content": "4."}]},
        "prediction": "right",
        "prediction_set": ["right"],
        "reply": {"text": "Yes.", "finish_reason": "stop"},
    },
    "marked reply": {
        "model": "writer",
        "input": "When does it come, and where can I look?",
        "prediction": "right",
        "prediction_set": ["right"],
        "reply": {
            "text": "## On **5 May**\n\n[Look](https://a.example)\n\n```\ntrack 7\n```\n\n| a | b |\n|-|-:|\n| 1 | 2 |",
            "finish_reason": "stop",
            "reasoning": "It was sent on 3 May. Wait. " * 20,
            "tokens": {"lengths": [5, 4, 6], "logprobs": [-0.1, -1.5, -0.1]},
        },
    },
    "fields": {"model": "mood", "input": {"name": "kettle", "price": 31.5, "tags": ["a", "b"]}, "prediction": "good"},
    "leak": {
        "model": "parts",
        "input": SENTENCE,
        "prediction": ["part 7"],
        "prediction_set": [],
        "top_labels": ["part 7", "part 3"],
        "label_confidence": [0.8, 0.3],
        "output": {"candidates": {"part 3": 0.4, "part 7": 0.9, "part 12": 0.2}},
    },
    "claim": {"model": "claims", "input": "Is 28 + 1 = 39?", "prediction": "no", "prediction_set": ["no"]},
    "gone": {"model": "mood", "input": SENTENCE, "prediction": None, "confidence": None},
}


def made(*, output=None, **changes):
    """An entry of the log, with what the request brought of a model that runs elsewhere."""
    return replace(entry(**changes), output=output)


class Site:
    """The pages over a database of their own, at a port of their own."""

    def __init__(self, dsn, *, models=MODELS, reviewed=None, **review):
        self.database = open_database(dsn)
        review = {"undo_seconds": 60, "models": reviewed or {}, **review}
        config = Config.model_validate({"models": models, "review": review})
        self.desk = ReviewService(config, self.database)
        listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        app = FastAPI()
        app.mount("/review", console_app(config, self.database))
        self.server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
        self.serving = threading.Thread(target=self.server.run, kwargs={"sockets": [listening]}, daemon=True)
        self.over = threading.Event()
        self.sweeping = threading.Thread(target=self._sweep, daemon=True)

    def _sweep(self):
        while not self.over.wait(0.2):
            self.desk.sweep()

    def __enter__(self):
        self.serving.start()
        self.sweeping.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.sweeping.join()
        self.server.should_exit = True
        self.serving.join()
        self.database.close()

    def put(self, *kinds, **case):
        """Cases of these kinds, in this order."""
        start = datetime.now(UTC) - timedelta(minutes=9)
        entries = [made(created_at=start + timedelta(seconds=i), **KINDS[kind]) for i, kind in enumerate(kinds)]
        with self.database.transaction() as connection:
            log.append(connection, entries)
            queue.enqueue(connection, [new_case(one, **case) for one in entries])
            gone = [one.record.id for one, kind in zip(entries, kinds, strict=True) if kind == "gone"]
            connection.execute("delete from payloads where record_id = any(%s)", (gone,))
        return [one.record.id for one in entries]

    def case(self, case_id):
        with self.database.transaction() as connection:
            return cases.case(connection, case_id)

    def opinions(self, case_id):
        """Those that count: who, what, why not, comment."""
        with self.database.transaction() as connection:
            found = cases.opinions_of(connection, [case_id])[case_id]
        return [(one.reviewer, one.label, one.reason, one.comment) for one in found if one.undone_at is None]


def until(found, *, seconds=20):
    """Wait until it is so."""
    deadline = time.monotonic() + seconds
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def at_case(page, case_id):
    page.wait_for_url(re.compile(f"/cases/{case_id}"))
    page.wait_for_selector(READY)


def press(page, *keys):
    for key in keys:
        page.keyboard.press(key)
