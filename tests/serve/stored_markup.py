"""Markup in every field that comes from outside, stored as the service would have stored it."""

from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from uuid import UUID

import numpy as np
from uuid_utils.compat import uuid7

from demur.audit.monitors.reference import Drift, DriftComparison, LabelShare
from demur.audit.state import alarms, control_states, runs, standing
from demur.audit.state.alarms import AlarmKind
from demur.audit.state.reports import Figure, LabelCount
from demur.policies.control import ControlledValue
from demur.review import access, outbox, queue, settling
from demur.review.item import ReviewVerdict
from demur.serve.config.control import settings_of
from demur.serve.config.file import Config
from demur.traffic import log
from demur.traffic.database import Database
from tests.conftest import entry, new_case
from tests.serve.web.audit.stored import MONDAY, keep, new_report, summary

DRIFT = ("psi", "psi_p_value", "ks", "ks_p_value", "unknown_before", "unknown_now")

FIRED = "demurFired"
"""What a payload that runs sets in the page."""


HIDDEN = "\u202e\u200b\U000e0041"
"""What turns the direction of what follows, what has no width, and a tag."""


def evil(field: str) -> str:
    """Markup that says which field it came through, in whatever place of a page it ends, and what nobody sees."""
    markup = f"<img src=x onerror=\"{FIRED}='{field}'\"><script>{FIRED}='{field}'</script>{{{{99991*99989}}}}"
    return f"{field}\"'>{markup}{HIDDEN}"


RAW = ("<img src=x", f"<script>{FIRED}", "9998000099")
"""What is seen in a page that did not escape, or took data for a template. The product is so long that no picture has
it among its coordinates."""

CLASSIFIER = {
    "host": {"kind": "classifier", "checkpoint": "not/loaded/by/pages"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "threshold", "limit": 0.3},
}
WRITER = {
    **CLASSIFIER,
    "host": {"kind": "transformers", "checkpoint": "not/loaded/by/pages"},
    "scores": ["improbability"],
    "confidence": {"score": "improbability"},
}
MODELS = {
    "mood": {
        **CLASSIFIER,
        "task": {"kind": "multiclass", "labels": ["good", evil("label")]},
        "spot_check": 0.1,
        "control": {"kind": "review_rate", "target": 0.1},
    },
    "tags": {
        **CLASSIFIER,
        "scores": ["binary_entropy"],
        "confidence": {"score": "binary_entropy"},
        "task": {"kind": "multilabel", "labels": ["a", "b"]},
    },
    "letters": {**WRITER, "task": {"kind": "choice"}},
    "writer": {**WRITER, "task": {"kind": "generate"}},
}

REVIEWER = evil("reviewer")

SHOWN = (
    "input",
    "field name",
    "field value",
    "role",
    "message",
    "question",
    "option",
    "group",
    "label",
    "prediction",
    "top label",
    "reason",
    "reply",
    "comment",
    "why cannot tell",
    "reviewer",
    "withdrawn",
    "claimant",
    "draft",
    "webhook error",
    "run error",
    "asked by",
    "alarm",
    "verdict",
    "figure",
    "made by",
    "alarm undone by",
    "alarm undone because",
    "viewer",
    "monitored artifact",
    "trouble of a monitor",
    "score that drifts",
    "class behind",
    "predicted now",
    "controlled artifact",
)
"""Fields that some page shows, so that a page which leaves one out is not taken for one that escapes it."""


def config() -> Config:
    hook = {"url": "https://example.org/hook", "secret_env": "DEMUR_TEST_HOOK", "events": ["withdrawn"]}
    return Config.model_validate({"models": MODELS, "review": {"undo_seconds": 0, "webhooks": [hook]}})


def store(database: Database) -> tuple[list[UUID], list[UUID]]:
    """Store it all; return the ids of cases and of reports."""
    common = {
        "group": evil("group"),
        "cluster": evil("cluster"),
        "artifact": evil("artifact"),
        "reason": evil("reason"),
        "prediction": evil("prediction"),
        "prediction_set": [evil("prediction"), evil("set")],
        "top_labels": [evil("top label"), "b"],
        "scores": {evil("score"): 0.4},
    }
    steps = [{"model": evil("step"), "prediction": evil("step said"), "confidence": 0.5, "action": "review",
              "reason": evil("step reason"), "scores": {}, "cost": None}]  # fmt: skip
    entries = [
        entry(**{**common, "model": "mood", "input": evil("input"), "steps": steps}),
        entry(**{**common, "model": "mood", "input": {evil("field name"): evil("field value"), "n": [evil("listed")]}}),
        entry(
            **{
                **common,
                "model": "writer",
                "prediction": "right",
                "input": {"messages": [{"role": evil("role"), "content": evil("message")}]},
                "reply": {"text": evil("reply"), "finish_reason": evil("finish")},
            }
        ),
        entry(
            **{**common, "model": "letters", "input": {"question": evil("question"), "options": [evil("option"), "b"]}}
        ),
        entry(**{**common, "model": "mood", "input": f"data:image/png;base64,{evil('picture')}"}),
        entry(**{**common, "model": evil("model"), "input": evil("input of nobody")}),
        entry(**{**common, "model": "mood", "input": evil("disputed")}),
        entry(**{**common, "model": "mood", "input": evil("drafted")}),
        entry(**{**common, "model": "tags", "input": evil("tagged"), "prediction": [evil("prediction")]}),
    ]
    ids = [one.record.id for one in entries]
    with database.transaction() as connection:
        outbox.subscribe(
            connection, [outbox.Subscription(webhook="https://example.org/hook", events=("withdrawn",), models=None)]
        )
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one, due_at=datetime.now(UTC) + timedelta(days=1)) for one in entries])
        for at in (0, 2):
            _answer(
                connection, ids[at], REVIEWER, ReviewVerdict(label="good", comment=evil("comment"), saw_prediction=True)
            )
        for who in (REVIEWER, "ada"):
            unsure = ReviewVerdict(
                label=None, reason=evil("why cannot tell"), comment=evil("comment"), saw_prediction=True
            )
            _answer(connection, ids[6], who, unsure)
        log.add_outcome(connection, ids[0], label=evil("truth"), source=evil("source"), author=evil("author"))
        access.note(connection, ids[:1], evil("viewer"), through="page", shown=["input"])
        queue.withdraw(connection, ids[1], evil("who withdrew"), why=evil("withdrawn"))
        queue.claim(connection, ids[3], evil("claimant"), lease_seconds=600)
        queue.claim(connection, ids[7], "ada", lease_seconds=600)
        queue.keep_draft(connection, ids[7], "ada", {"label": None, "reason": None, "comment": evil("draft")})
        for delivery in outbox.take(
            connection, "https://example.org/hook", limit=10, lease_seconds=60, most_attempts=3
        ):
            outbox.failed(
                connection,
                delivery,
                evil("webhook error"),
                most_attempts=1,
                rng=np.random.default_rng(0),
                for_good=True,
            )
        since = MONDAY - timedelta(days=7)
        runs.ask(connection, "mood", since=since, until=MONDAY, asked_by=evil("asked by"))
        runs.failed(connection, runs.take(connection, lease_seconds=60), evil("run error"))
        runs.ask(connection, "letters", since=since, until=MONDAY, asked_by=evil("asked by"))
        told = {"artifact": evil("artifact"), "round": 0, "evidence": {evil("evidence"): evil("evidence")}}
        for kind, words in ((AlarmKind.RISK, "alarm"), (AlarmKind.HELD, "second alarm")):
            alarms.raise_alarm(connection, model="mood", kind=kind, words=evil(words), **told)
        first = alarms.latest(connection, limit=1)[0]
        alarms.mark_undone(connection, first.id, by=evil("alarm undone by"), why=evil("alarm undone because"))
        _watch_and_steer(connection)
    figures = [Figure(name="selective_risk", words=evil("figure"), value=0.01, low=0.0, high=0.02)]
    told = summary(
        verdict="broken",
        why=evil("verdict"),
        figures=figures,
        labels=[LabelCount(name="answered", records=5, labelled=2)],
        artifacts={evil("artifact"): 5},
    )
    reports = keep(
        database,
        *(
            new_report(
                MONDAY + timedelta(days=n), of=told, model="mood", made_by=evil("made by"), command=evil("command")
            )
            for n in range(3)
        ),
    )
    return ids, reports


def _watch_and_steer(connection) -> None:
    """What a monitor and a control have found."""
    comparison = DriftComparison(
        n=500,
        n_reference=500,
        drifts=(Drift(name=evil("score that drifts"), **dict.fromkeys(DRIFT, 0.1)),),
        labels=(LabelShare(label=evil("predicted now"), before=0.5, now=0.6),),
        classes=(LabelShare(label=evil("class behind"), before=0.5, now=0.6),),
        labels_psi=0.1,
        labels_p_value=0.5,
        held_before=0.1,
        held_now=0.2,
    )
    told = {"role": "in force", "counts_from": MONDAY, "settings": {}, "state": comparison.as_json()}
    standing.begin(connection, "mood", evil("monitored artifact"), "comparison", **told)
    standing.note_look(connection, "mood", evil("trouble of a monitor"))
    model, now = config().models["mood"], datetime.now(UTC)
    course = asdict(ControlledValue(start=0.5, value=0.8, n=100, total=8.0))
    begun = {"settings": settings_of(model), "course": course, "holder": uuid7(), "now": now}
    control_states.begin(connection, uuid7(), model="mood", **begun)
    connection.execute("update control_states set artifact = %s", (evil("controlled artifact"),))


def places(cases: list[UUID], reports: list[UUID]) -> list[str]:
    """The address of every page, under `/review` and `/audit`."""
    review = [
        "/review/",
        *(f"/review/?show={show}" for show in ("waiting", "disputed", "claimed", "done")),
        "/review/?show=done&model=%22%3E%3Cscript%3E" + FIRED + "%3D1%3C/script%3E",
        f"/review/?after={cases[0]}&nothing=true",
        *(f"/review/cases/{case}" for case in cases),
        "/review/overview",
        "/review/webhooks",
        "/review/access-log",
        "/review/access-log?case=%22%3E%3Cscript%3E" + FIRED + "%3D1%3C/script%3E",
        "/review/access-log?person=%22%3E%3Cscript%3E" + FIRED + "%3D1%3C/script%3E",
        "/review/hello",
        "/review/docs",
        "/review/cases/7",
    ]
    audit = [
        "/audit/",
        *(f"/audit/reports/{report}" for report in reports),
        f"/audit/reports/{reports[-1]}/compare/{reports[0]}",
        f"/audit/reports/{reports[0]}/compare",
        "/audit/monitors",
        "/audit/control",
        "/audit/docs",
        "/audit/hello",
        "/audit/%3Cimg%20src=x%20onerror=1%3E",
    ]
    return review + audit


def _answer(connection, case_id, reviewer, verdict) -> None:
    claim = queue.claim(connection, case_id, reviewer, lease_seconds=60)
    queue.answer(connection, case_id, reviewer, token=claim.token, verdict=verdict, undo_seconds=0)
    settling.settle(connection, settling.Settlement(), case_id)
