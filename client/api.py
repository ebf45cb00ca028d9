"""Everything that can be asked of a service, as steps. It sends nothing and waits for nothing itself."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, BinaryIO, TypeVar
from uuid import UUID

from demur.client.batches import Batch, BatchBuilder, BatchKind, ask_batch
from demur.client.errors import BadReply, DemurError, StillWaiting
from demur.client.fields import Fields
from demur.client.ids import Id, id_of, key_of
from demur.client.items import Item, encoded, outcome_body, prediction_body
from demur.client.results import Erasure, Health, Label, Outcome, Prediction, PredictionView, Report
from demur.client.steps import Attempts, Call, Pause, Reply, Steps, json_of

T = TypeVar("T")

LONGEST_POLL = 50.0
"""Seconds that one request waits for a person; the service takes up to 60."""

BETWEEN_POLLS = 1.0
"""Seconds between two requests where the service does not wait itself."""

PREDICTIONS: BatchKind[Prediction] = BatchKind(
    path="/v1/predict/batch",
    answer="prediction",
    item="input",
    read=lambda told, replayed: _prediction(told, replayed),  # which is defined below
    tells_deadline=True,
)
OUTCOMES: BatchKind[Outcome] = BatchKind(
    path="/v1/outcomes/batch",
    answer="outcome",
    item="outcome",
    read=lambda told, replayed: _outcome(told, replayed),
    tells_deadline=False,
)


class Api:
    """What can be asked. Each method returns the steps that lead to its answer."""

    def __init__(self, attempts: Attempts, *, seconds: float) -> None:
        self._attempts = attempts
        self._seconds = seconds

    def predict(self, model: str, item: Item, *, key: str | None, seconds: float | None) -> Steps[Prediction]:
        reply = yield from self._attempts.of(
            Call(
                method="POST",
                path="/v1/predict",
                content=encoded(prediction_body(model, item, Item())),
                key=key_of(key),
                tells_deadline=True,
            ),
            self._seconds if seconds is None else seconds,
        )
        return _prediction(self._attempts.answer(reply, "/v1/predict"), _is_replay(reply))

    def predictions(self, model: str, defaults: Item, *, size: int, first: int) -> BatchBuilder[Prediction]:
        return BatchBuilder(
            lambda value: prediction_body(model, value, defaults), size=size, first=first, what=PREDICTIONS.item
        )

    def outcomes(self, *, size: int, first: int) -> BatchBuilder[Outcome]:
        return BatchBuilder(outcome_body, size=size, first=first, what=OUTCOMES.item)

    def batch(self, kind: BatchKind[T], batch: Batch[T], *, key: str, seconds: float) -> Steps[list[T | DemurError]]:
        return ask_batch(self._attempts, kind, batch, key, seconds)

    def prediction(self, id: Id) -> Steps[PredictionView]:
        return self._view(id, 0.0)

    def wait(self, id: Id, seconds: float | None) -> Steps[PredictionView]:
        clock = self._attempts.clock
        deadline = float("inf") if seconds is None else clock() + seconds
        while True:
            asked = clock()
            view = yield from self._view(id, max(0.0, min(LONGEST_POLL, deadline - asked)))
            if view.outcome is not None or view.review is None or view.review.ended:
                return view
            if clock() >= deadline:
                raise StillWaiting(f"nobody has answered within {seconds:g} s; the case is {view.review.status}")
            if (rest := min(asked + BETWEEN_POLLS, deadline) - clock()) > 0:
                yield Pause(rest)

    def _view(self, id: Id, wait: float) -> Steps[PredictionView]:
        path = f"/v1/predictions/{id_of(id)}"
        call = Call(method="GET", path=path, params={"wait": f"{wait:.3f}"} if wait else {})
        reply = yield from self._attempts.of(call, self._seconds + wait)
        return PredictionView.of(self._attempts.answer(reply, path))

    def add_outcome(
        self, id: Id, label: Label, source: str, author: str | None, text: str | None, *, key: str | None
    ) -> Steps[Outcome]:
        path = f"/v1/predictions/{id_of(id)}/outcome"
        body = outcome_body({"label": label, "source": source, "author": author, "text": text})
        call = Call(method="POST", path=path, content=encoded(body), key=key_of(key))
        reply = yield from self._attempts.of(call, self._seconds)
        return _outcome(self._attempts.answer(reply, path), _is_replay(reply))

    def erase(self, id: Id) -> Steps[Erasure]:
        path = f"/v1/predictions/{id_of(id)}/payload"
        reply = yield from self._attempts.of(Call(method="DELETE", path=path), self._seconds)
        return Erasure.of(self._attempts.answer(reply, path))

    def health(self) -> Steps[Health]:
        call = Call(method="GET", path="/healthz", takes=frozenset((200, 503)))
        reply = yield from self._attempts.of(call, self._seconds)
        body = json_of(reply)
        if reply.status == 503 and not (isinstance(body, Mapping) and "status" in body):
            raise self._attempts.problem(reply)  # whoever is in front has no gateway to ask
        return Health.of(self._attempts.answer(reply, "/healthz"))

    def models(self) -> Steps[list[str]]:
        reply = yield from self._attempts.of(Call(method="GET", path="/v2/models"), self._seconds)
        return self._attempts.answer(reply, "/v2/models").texts("models")

    def export(
        self, model: str, to: BinaryIO, *, format: str, statuses: Iterable[str], with_predictions: bool
    ) -> Steps[int]:
        params: dict[str, Any] = {"model": model, "format": format, "status": list(statuses)}
        if with_predictions:
            params["with_predictions"] = "true"
        call = Call(method="GET", path="/review/v1/export", params=params, to=to)
        reply = yield from self._attempts.of(call, None)
        try:
            return int(reply.headers.get("x-demur-left-out", "0"))
        except ValueError:
            raise BadReply("/review/v1/export: X-Demur-Left-Out is no number") from None

    def reports(self, model: str | None, limit: int) -> Steps[list[Report]]:
        params = {"limit": limit} | ({} if model is None else {"model": model})
        reply = yield from self._attempts.of(Call(method="GET", path="/audit/v1/reports", params=params), self._seconds)
        return self._attempts.answer(reply, "/audit/v1/reports").objects("reports", Report.of)

    def report(self, id: str | UUID) -> Steps[Report]:
        path = f"/audit/v1/reports/{id_of(id)}"
        reply = yield from self._attempts.of(Call(method="GET", path=path), self._seconds)
        return Report.of(self._attempts.answer(reply, path))


def _is_replay(reply: Reply) -> bool:
    return reply.headers.get("idempotent-replay") == "true"


def _prediction(told: Fields, replayed: bool) -> Prediction:
    return replace(Prediction.of(told), replayed=replayed)


def _outcome(told: Fields, replayed: bool) -> Outcome:
    return replace(Outcome.of(told), replayed=replayed)
