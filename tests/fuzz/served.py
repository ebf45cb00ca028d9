"""All three applications over a real database and hosts that answer at once, with cases and reports to ask about."""

from dataclasses import dataclass
from itertools import cycle
from uuid import UUID

from starlette.applications import Starlette
from starlette.types import ASGIApp

from demur.review import queue
from demur.serve.access.own_hosts import OwnHosts
from demur.serve.config.file import Config
from demur.serve.config.input import ColumnConfig
from demur.serve.contract.decided import ArtifactShare, DecidedRows
from demur.serve.contract.hosts import HostState
from demur.serve.contract.inputs import InputSpec
from demur.serve.gateway.intake import Intake
from demur.serve.gateway.request_limit import RequestLimit
from demur.serve.web.audit.app import audits_app
from demur.serve.web.login.browser_guard import BrowserGuard
from demur.serve.web.native.admission import Admission
from demur.serve.web.native.app import gateway_app
from demur.serve.web.native.fast_path import FastPath
from demur.serve.web.review.app import console_app
from demur.traffic import log
from demur.traffic.database import Database
from tests.conftest import entry, new_case
from tests.serve.conftest import make_handler
from tests.serve.web.audit.stored import keep, new_report

SCORED = {
    "host": {"kind": "classifier", "checkpoint": "not/loaded/here"},
    "scores": ["softmax_response"],
    "confidence": {"score": "softmax_response"},
    "policy": {"kind": "threshold", "limit": 0.3},
}
WRITES = {
    **SCORED,
    "host": {"kind": "transformers", "checkpoint": "not/loaded/here", "max_tokens": 64},
    "scores": ["improbability"],
    "confidence": {"score": "improbability"},
}
MODELS = {
    "words": {**SCORED, "task": {"kind": "multiclass", "labels": ["1", "7"]}},
    "pixels": {**SCORED, "task": {"kind": "multiclass", "labels": ["1", "7"]}},
    "rows": {**SCORED, "task": {"kind": "multiclass", "labels": ["1", "7"]}},
    "numbers": {**SCORED, "task": {"kind": "multiclass", "labels": ["1", "7"]}},
    "letters": {**WRITES, "task": {"kind": "choice"}},
    "writer": {**WRITES, "task": {"kind": "generate"}},
    "streamer": {**WRITES, "task": {"kind": "generate"}, "chat": {"stream": "tentative"}},
    "seer": {**WRITES, "task": {"kind": "generate"}, "chat": {"stream": "tentative"}},
    "vendor": {
        **SCORED,
        "host": {"kind": "given", "gives": ["probabilities"]},
        "task": {"kind": "multiclass", "labels": ["1", "7"]},
    },
}
SPECS = {
    "words": InputSpec(kind="text"),
    "pixels": InputSpec(kind="image", channels=1, height=2, width=2),
    "rows": InputSpec(
        kind="table",
        columns={
            "age": ColumnConfig(missing=True, min=0, max=130),
            "children": ColumnConfig(kind="integer"),
            "pays": ColumnConfig(kind="numeric"),
            "smoker": ColumnConfig(kind="boolean"),
            "job": ColumnConfig(kind="category", values=("clerk", "nurse"), missing=True, unknown="missing"),
            "note": ColumnConfig(kind="text"),
        },
    ),
    "numbers": InputSpec(kind="table", columns={"a": ColumnConfig(missing=True), "b": ColumnConfig(kind="boolean")}),
    "letters": InputSpec(kind="choice", options=4),
    "writer": InputSpec(kind="chat"),
    "streamer": InputSpec(kind="chat"),
    "seer": InputSpec(kind="chat", pictures=2),
    "vendor": InputSpec(kind="given"),
}
MOST_BYTES = 300_000


class ReadyHost:
    """Answers, and holds, in turns."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._actions = cycle(("answer", "review", "abstain"))

    async def state(self):
        return HostState(spec=SPECS[self.name], artifact="a-1", trouble="")

    async def decide(self, inputs, groups, draws):
        n, writes = len(inputs), self.name in ("writer", "streamer", "seer")
        said = "right" if writes else "A" if self.name == "letters" else "7"
        decided = DecidedRows(
            artifact="a-1",
            predictions=[said] * n,
            top_labels=[[said, "1"]] * n,
            top_probabilities=[[0.75, 0.25]] * n,
            label_confidences=[None] * n,
            prediction_sets=[[said]] * n,
            scores={"softmax_response": [0.25] * n},
            confidence=[0.75] * n,
            actions=[next(self._actions) for _ in range(n)],
            reasons=["because"] * n,
            model_milliseconds=0.1,
            costs=[None] * n,
            replies=[{"text": "a reply", "finish_reason": "stop"} if writes else None] * n,
        )
        return [ArtifactShare(rows=list(range(n)), decided=decided)]

    async def stream(self, value, group, draw):
        yield ""
        yield "a reply"
        (share,) = await self.decide([value], [group], [draw])
        yield share


@dataclass(frozen=True)
class Known:
    """What there is to be asked about."""

    records: list[UUID]
    reports: list[UUID]


def config() -> Config:
    return Config.model_validate(
        {
            "models": MODELS,
            "limits": {"body_bytes": MOST_BYTES, "text_characters": 1000, "image_pixels": 10_000},
            "review": {"undo_seconds": 60},
        }
    )


def served(database: Database) -> tuple[dict[str, ASGIApp], Known]:
    """The applications by where they are mounted, and what they know."""
    told = config()
    entries = [
        entry(model=name, input="a text", reply={"text": "a reply", "finish_reason": "stop"})
        for name in ("words", "letters", "writer")
        for _ in range(3)
    ]
    with database.transaction() as connection:
        log.append(connection, entries)
        queue.enqueue(connection, [new_case(one) for one in entries])
    reports = keep(database, new_report(model="words"), new_report(model="words"))
    handler = make_handler(told, {name: ReadyHost(name) for name in MODELS}, database)
    gateway = gateway_app(handler, max_body_bytes=MOST_BYTES)
    gateway.state.handler = handler
    apps: dict[str, ASGIApp] = {
        "/review": console_app(told, database),
        "/audit": audits_app(told, database),
        "": gateway,
    }
    return apps, Known(records=[one.record.id for one in entries], reports=reports)


def mounted(apps: dict[str, ASGIApp]) -> Starlette:
    """The applications in one, each behind what stands before it in a service."""
    whole = Starlette()
    for root, app in apps.items():
        whole.mount(root, BrowserGuard(app if root else _entered(app), OwnHosts(["testserver"]), has_pages=bool(root)))
    return whole


def _entered(gateway) -> Admission:
    limits = config().limits
    door = FastPath(gateway.state.handler, max_body_bytes=limits.body_bytes).before(gateway)
    return Admission(door, RequestLimit(most=limits.open_requests, share=limits.share_per_key), Intake(limits))
