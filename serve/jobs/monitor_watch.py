"""The job that keeps the monitors of all models going, and says so in the log when one raises an alarm."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from demur.audit.metrics.likeness import likeness
from demur.audit.monitors import feeding
from demur.audit.monitors.arrivals import MonitorLabel
from demur.audit.monitors.feeding import FeedResult, WatchedArtifact
from demur.audit.monitors.risk import RiskSettings
from demur.audit.monitors.traffic import TrafficSettings
from demur.audit.state import standing
from demur.audit.state.alarms import OnAlarm
from demur.audit.state.standing import Role
from demur.calibration_store.artifact import ArtifactRefused
from demur.calibration_store.folder import ArtifactsUnreachable
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from demur.policies.promise import OF_ANSWERS
from demur.serve.config.file import Config, ModelConfig
from demur.serve.config.monitor import MonitorConfig
from demur.traffic.database import Connection, Database, DatabaseUnavailable
from demur.traffic.draw import Draws
from demur.traffic.log import draw_key

log = logging.getLogger("demur.monitors")


FORMER = 10
"""So many artifacts that were replaced are still followed, as people go on with what these left for review."""

SKEW = timedelta(minutes=10)
"""The clock of whoever promoted an artifact, and that of a gateway, may differ by so much."""


@dataclass(frozen=True)
class Facts:
    """What is known of an artifact from the store; it never changes."""

    since: datetime
    promised: float | None


class MonitorWatch:
    """Looks at what has come for all models. Any number of these may look at once."""

    def __init__(self, config: Config, store: ArtifactStore, database: Database) -> None:
        self._config = config
        self._store = store
        self._database = database
        self._facts: dict[tuple[str, str], Facts] = {}
        self._draws: Draws | None = None
        self._out_of_sight: set[str] = set()

    def look(self) -> None:
        """Let every monitor take in what has come."""
        for name, model in self._config.models.items():
            settings = model.watched
            if settings is None:
                continue
            try:
                self._look_at(name, model, settings)
                trouble = ""
                self._out_of_sight.discard(name)
            except Exception as error:  # that of one model is no reason to look away from the others
                trouble = str(error) or type(error).__name__
                if name not in self._out_of_sight:  # once is enough for as long as it lasts
                    known = isinstance(error, ArtifactsUnreachable | DatabaseUnavailable)
                    log.error("the monitors of model %s see nothing: %s", name, error, exc_info=not known)
                    self._out_of_sight.add(name)
            self._note_look(name, trouble)

    def _look_at(self, name: str, model: ModelConfig, settings: MonitorConfig) -> None:
        now = self._store.standing(name)
        roles: dict[str, Role] = {}
        if now.canary:
            roles[now.canary.artifact] = "canary"
        if now.in_force:
            roles[now.in_force] = "in force"
        watched = [self._watched(name, artifact, role, model, settings) for artifact, role in roles.items()]
        with self._database.transaction() as connection:
            standing.note_roles(connection, name, roles)
            for one in watched:
                feeding.begin(connection, one)
            old = standing.former(connection, name, most=FORMER)
        for one in watched:
            self._feed(partial(feeding.feed_risk, watched=one))
            self._feed(partial(self._feed_traffic, one))
            with self._database.transaction() as connection:
                feeding.compare(connection, one)
        for artifact in old:
            try:
                one = self._watched(name, artifact, None, model, settings)
            except (ArtifactNotFound, ArtifactRefused):
                continue  # nobody knows any more what it promised
            self._feed(partial(feeding.feed_risk, watched=one))

    def _feed_traffic(self, one: WatchedArtifact, connection: Connection) -> FeedResult:
        return feeding.feed_traffic(connection, one, self._draws_of(connection))

    def _feed(self, take_in: Callable[[Connection], FeedResult]) -> None:
        more = True
        while more:
            with self._database.transaction() as connection:
                fed = take_in(connection)
            for alarm in fed.alarms:
                log.error(
                    "alarm %d about model %s, artifact %s: %s; it does this: %s",
                    alarm.id,
                    alarm.model,
                    alarm.artifact,
                    alarm.words,
                    alarm.action,
                )
            more = fed.more

    def _watched(
        self, name: str, artifact: str, role: Role | None, model: ModelConfig, settings: MonitorConfig
    ) -> WatchedArtifact:
        facts = self._facts_of(name, artifact)
        target = facts.promised if settings.max_risk is None else settings.max_risk
        checks = model.spot_checks
        return WatchedArtifact(
            model=name,
            artifact=artifact,
            role=role,
            since=facts.since,
            risk=RiskSettings(target=target, delta=settings.delta, in_order=settings.wait_hours is not None),
            floor=checks.least if checks else 1.0,
            traffic=TrafficSettings(delta=settings.drift_delta, reference=settings.reference),
            window=settings.window,
            # what no longer decides is no reason to hold what does
            on_alarm=settings.on_alarm if role else OnAlarm.NOTIFY,
            tighten_to=settings.tighten_to,
            loss=loss_of(model),
            wrong_in_part=model.right == "jaccard",
            precedence=model.outcomes.precedence,
            wait_seconds=3600 * (settings.wait_hours or 0),
        )

    def _facts_of(self, name: str, artifact: str) -> Facts:
        known = self._facts.get((name, artifact))
        if known is None:
            changes = [change for change in self._store.history(name) if change.artifact == artifact]
            began = min((datetime.fromisoformat(change.at) for change in changes), default=datetime.now(UTC))
            manifest = self._store.load(name, artifact).manifest
            known = self._facts[name, artifact] = Facts(since=began - SKEW, promised=promised_risk(manifest, name))
        return known

    def _draws_of(self, connection: Connection) -> Draws:
        if self._draws is None:
            self._draws = Draws(draw_key(connection), feeding.PURPOSE)
        return self._draws

    def _note_look(self, name: str, trouble: str) -> None:
        try:
            with self._database.transaction() as connection:
                standing.note_look(connection, name, trouble)
        except DatabaseUnavailable:
            pass  # that nobody looks can be told from the age of the last look


def promised_risk(manifest: Mapping[str, object], model: str) -> float | None:
    """The share of wrong answers that an artifact promises at most; None where it promises none."""
    promises = manifest.get("promises", [])
    assert isinstance(promises, list)
    return min(
        (
            float(one["target"])
            for one in promises
            if one["share"] in OF_ANSWERS and one.get("feasible", True) and one["model"] == model
        ),
        default=None,
    )


def loss_of(model: ModelConfig) -> Callable[[MonitorLabel], float]:
    """How wrong an answer of this model was: of single labels, whether it was."""

    def loss(label: MonitorLabel) -> float:
        if label.prediction is None:
            return 1.0
        like = likeness(label.prediction, label.truth)
        return 1 - like if model.right == "jaccard" else float(like < 1)

    return loss
