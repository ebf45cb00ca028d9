"""The configuration: one YAML file, read once, as one frozen tree. Unknown keys are refused."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from demur.audit.state.alarms import OnAlarm
from demur.library.nearest import did_you_mean
from demur.library.settings import GatheredMistakes, settings_of
from demur.policies.label_sets import MULTILABEL_SETS, SETS
from demur.policies.moved_inputs import WeighBy
from demur.policies.rules import POLICIES
from demur.policies.selector_recipe import SelectorRecipe
from demur.serve.config.access import AccessConfig
from demur.serve.config.audits import AuditConfig
from demur.serve.config.chat import ChatConfig
from demur.serve.config.checkpoint_labels import with_labels
from demur.serve.config.control import ControlConfig, check_control
from demur.serve.config.hosts.host import placed_folder
from demur.serve.config.hosts.kinds import HostConfig
from demur.serve.config.known_keys import ANY, Steps
from demur.serve.config.mistake import Mistake, told
from demur.serve.config.monitor import MonitorConfig, Monitored, read_monitor
from demur.serve.config.prompt import PromptConfig, SamplesConfig
from demur.serve.config.pydantic_words import written_as
from demur.serve.config.recipe import check_follows, recipe_of
from demur.serve.config.redact import RedactConfig
from demur.serve.config.review import ReviewConfig, ReviewRule
from demur.serve.config.review_models import check_reviewed_models
from demur.serve.config.scaling import ConsoleConfig, GatewayConfig
from demur.serve.config.secret import told_elsewhere
from demur.serve.config.settings import Section
from demur.serve.config.spot_checks import SpotCheckConfig, read_spot_check
from demur.serve.config.task import TaskConfig
from demur.serve.config.task_settings import check_task_settings
from demur.serve.config.telemetry import TelemetryConfig
from demur.serve.config.webhooks import check_webhooks
from demur.traffic.file_form import FileForm
from demur.traffic.outcomes import LATEST, Precedence

TEMPLATES_OF_A_PROMPT = ("template", "mapping_template", "rating_template", "pair_template")


class BadConfig(ValueError):
    """The configuration cannot be used. The message names the key, what is wrong, and what would be right."""

    heading: str = ""
    mistakes: Sequence[str] = ()
    """Where there are several, each as a sentence, under a heading."""

    @classmethod
    def of(cls, path: Path, mistakes: Sequence[Mistake]) -> "BadConfig":
        words = told(mistakes)
        if len(words) == 1:
            return cls(f"{path}{', ' if mistakes[0].mark else ': '}{words[0]}")
        heading = f"{path}: {len(mistakes)} things are wrong:"
        error = cls(f"{heading} {'; '.join(words)}")
        error.heading, error.mistakes = heading, words
        return error


class ConfidenceConfig(Section):
    """Which score becomes a probability, and how."""

    score: str
    """The name of one of the scores."""

    calibrator: str | dict[str, dict[str, Any]] = "isotonic"
    right: Literal["exact", "jaccard"] | None = None
    """What confidence is a forecast of in a multilabel task: `jaccard`, the similarity of the predicted labels and
    the right ones (the default there), or `exact`, the chance that they are the same."""


class CalibrationConfig(Section):
    """Labelled data that the model was not trained on."""

    data: Path | None = None
    """Fitted from on the first start, when the store has no artifact for the model."""

    input_column: str = Field(default="input", min_length=1)
    label_column: str = Field(default="label", min_length=1)
    cluster_column: str = Field(default="cluster", min_length=1)
    """What rows belong to, such as a patient. They fall into one part of the split, and one of them certifies."""

    equal_inputs: Literal["together", "apart"] = "together"
    """Rows with equal inputs are one cluster, or each counts."""

    encoding: str | None = None
    """Of a .csv or .jsonl, such as `cp1252`; by default as the first bytes of the file say, else UTF-8."""

    report_share: float = Field(default=0.4, gt=0, lt=1)
    """Share of the labelled rows that is kept out of the fit, to report on."""

    weigh_by: WeighBy = "confidence"
    """What tells new traffic from labelled rows that are to stand for it (`demur fit --for-traffic`)."""

    seed: int = 0

    keep_outputs_mb: int = Field(default=1_000, ge=0)
    """Megabytes of what the model says about a labelled file that are kept for the next `demur fit`; 0 keeps none."""

    @property
    def form(self) -> FileForm:
        """How the labelled file is read."""
        return FileForm(
            input=self.input_column, label=self.label_column, cluster=self.cluster_column, encoding=self.encoding
        )


class OutcomesConfig(Section):
    """Which outcome of a record counts, where there are several."""

    precedence: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = LATEST
    """Sources, such as `lab`, `review` and `api`: one named earlier counts before one named later, and one that is not
    named comes last. Among equals the latest counts."""

    @field_validator("precedence")
    @classmethod
    def names_each_once(cls, precedence: Precedence) -> Precedence:
        if twice := sorted({source for source in precedence if precedence.count(source) > 1}):
            raise ValueError(f"{twice[0]!r} is named more than once; a source has one place")
        return precedence


class ModelConfig(Section):
    """One served model."""

    task: TaskConfig
    host: HostConfig
    scores: tuple[str | dict[str, dict[str, Any]], ...] = Field(min_length=1)
    """Names, or one-key mappings from a name to its settings. All are recorded. With `as` among its settings an entry
    goes by another name, so that one score can be listed twice."""

    confidence: ConfidenceConfig
    policy: dict[str, Any]
    """`kind`, and the settings of that kind."""

    prediction_set: dict[str, Any] = Field(default={})
    """`kind`, by default `split`, and the settings of that kind: the labels shown beside a prediction."""

    label_confidence: str | dict[str, dict[str, Any]] | None = None
    """How the probabilities of the most probable labels of a multilabel task are calibrated."""

    spot_check: float | SpotCheckConfig = 0.0
    """Share of the predictions that are not held for review, drawn at random, that a person looks at all the same: from
    them it can be told how often answers are wrong."""

    control: ControlConfig | None = None
    """A value that follows the stream, and steers what becomes of what the artifact has decided."""

    blind_review: bool | None = None
    """Whether reviewers see what the model said only after they have answered. By default they do where spot checks
    or second looks (`review.re_review`) are drawn: those shall not look different from what is held, and nobody shall
    be led."""

    monitor: Monitored = None
    """How it is watched while it serves. By default it is where spot checks are drawn; `false`: it is not."""

    calibration: CalibrationConfig = CalibrationConfig()
    examples: Path | None = None
    """A labelled file of which everybody who may predict is shown the first rows, to try the model with."""

    outcomes: OutcomesConfig = OutcomesConfig()

    prompt: PromptConfig = PromptConfig()
    """Language models: how they are asked."""

    samples: SamplesConfig = SamplesConfig()
    """Language models: how many replies are sampled, where a score compares them."""

    chat: ChatConfig = ChatConfig()
    """Language models: how they answer at /v1/chat/completions."""

    escalate_to: str | None = None
    """Another model of the same labels, which is asked about what this one does not answer, before a person is. The
    artifact of this model then decides for both."""

    on_failure: Literal["hold", "fail", "next"] | None = None
    """What becomes of a request about which the model could not be asked: `hold`, it is held like any doubt; `fail`,
    the caller gets an error and may try again; `next`, another endpoint or model is asked, and where none is there it
    fails. By default `fail` where `host.kind` is `openai`, else `hold`."""

    fall_back_to: str | None = None
    """Another model of the same labels, which is asked in the place of this one where that is away. Its own artifact
    decides, and the record is its own (`on_failure: next`)."""

    @field_validator("spot_check", mode="before")
    @classmethod
    def is_a_rate_or_rates(cls, value: Any) -> float | SpotCheckConfig:
        return read_spot_check(value)

    @field_validator("monitor", mode="before")
    @classmethod
    def is_a_monitor_or_none(cls, value: Any) -> Monitored:
        return read_monitor(value)

    @model_validator(mode="before")
    @classmethod
    def labels_of_the_checkpoint(cls, values: Any) -> Any:
        return with_labels(values)

    @model_validator(mode="after")
    def parts_exist(self) -> "ModelConfig":
        gathered = GatheredMistakes()
        with gathered:
            check_task_settings(self)
        with gathered:
            _ = self.recipe
        with gathered:
            if self.chat.stream == "tentative" and self.escalate_to:
                raise ValueError("chat.stream: what one model streams cannot become another's answer; write `hold`")
        with gathered:
            if self.chat.stream == "tentative" and self.fall_back_to:
                raise ValueError("chat.stream: a stream that has begun cannot go on with fall_back_to; write `hold`")
        with gathered:
            self._check_next()
        with gathered:
            self._check_observes()
        gathered.check()
        check_control(self)
        return self

    def _check_observes(self) -> None:
        """Raise `ValueError` where something could hold what a policy that only observes answers."""
        if self.policy.get("kind") != "observe":
            return
        for key in ("control", "escalate_to"):
            if getattr(self, key) is not None:
                raise ValueError(f"{key}: `policy: {{kind: observe}}` answers everything; leave {key} out")
        if self.watched is not None and self.watched.on_alarm != OnAlarm.NOTIFY:
            raise ValueError("monitor.on_alarm: `policy: {kind: observe}` answers everything; write `notify`")

    def _check_next(self) -> None:
        """Raise `ValueError` where somebody else is to be asked and nobody is named, or the other way round."""
        endpoints = bool(getattr(self.host, "endpoints", ()))
        if self.on_failure == "next" and not (endpoints or self.fall_back_to):
            raise ValueError("on_failure: next: name who is asked then, with host.endpoints or fall_back_to")
        for key, named in (("host.endpoints", endpoints), ("fall_back_to", self.fall_back_to)):
            if named and self.on_failure != "next":
                raise ValueError(f"{key}: nobody would ask there; write `on_failure: next` beside it")

    @cached_property
    def recipe(self) -> SelectorRecipe:
        """The selector that is configured here, before it has seen data."""
        return recipe_of(self)

    @property
    def when_away(self) -> Literal["hold", "fail", "next"]:
        """What becomes of a request about which the model could not be asked."""
        return self.on_failure or ("fail" if self.host.is_endpoint else "hold")

    @property
    def recorded_scores(self) -> tuple[str, ...]:
        """Names of the scores on the record."""
        return (*self.recipe.scores, *self.recipe.combinations)

    @property
    def file_form(self) -> FileForm:
        """How a labelled file of the model is read."""
        return replace(self.calibration.form, whole=self.host.is_given)

    @property
    def spot_checks(self) -> SpotCheckConfig | None:
        """None where nothing is checked."""
        told = self.spot_check
        if isinstance(told, SpotCheckConfig):
            return told
        return SpotCheckConfig(rate=told) if told > 0 else None

    @property
    def least_label_probability(self) -> float:
        """Nothing that a person may be asked about by chance is drawn less often; 1 where nothing is drawn."""
        return self.spot_checks.least if self.spot_checks else 1.0

    @property
    def watched(self) -> MonitorConfig | None:
        """None where it is not watched."""
        if self.monitor is None:
            return MonitorConfig() if self.spot_checks else None
        return self.monitor or None

    @property
    def max_risk(self) -> float | None:
        """Share of the answers that may be wrong, where the monitor is told; else what the artifact promises."""
        return self.monitor.max_risk if isinstance(self.monitor, MonitorConfig) else None

    @property
    def right(self) -> str:
        """What a prediction is worth once the truth is known."""
        return self.confidence.right or ("exact" if self.task.exclusive else "jaccard")


PART = r"(?:[^\s@/?#%]|%[0-9A-Fa-f]{2})*+"
HOST = r"(?:\[[^\s\]]*+\]|(?:[^\s@/?#%:,\[\]]|%[0-9A-Fa-f]{2})*+)(?::\d*+)?"
DSN = re.compile(rf"postgres(ql)?://({PART}@)?{HOST}(?:,{HOST})*+(/{PART})?(\?\S*+)?")
"""The address of a PostgreSQL."""


HOST_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


class HttpConfig(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)
    grpc_port: int | None = Field(default=None, ge=1, le=65535)
    """Where the Open Inference Protocol is spoken over gRPC; by default it is not."""

    names: tuple[str, ...] = ()
    """Further names under which it is called, beside `localhost`, its addresses, `host` and that in `access.url`."""

    @field_validator("names")
    @classmethod
    def are_names(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for name in names:
            if not HOST_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not a name like demur.example.org, without http:// and without a port")
        return names

    @model_validator(mode="after")
    def ports_differ(self) -> "HttpConfig":
        if self.grpc_port == self.port:
            raise ValueError("grpc_port: this is `port` as well; choose another one")
        return self


class LimitsConfig(Section):
    """What a single request may ask for."""

    body_bytes: int = Field(default=16 * 2**20, ge=1024)
    text_characters: int = Field(default=100_000, ge=1)
    image_pixels: int | None = Field(default=None, ge=1)
    """Pixels that the pictures of one request may have together; by default 256 for each pixel of the model's input,
    but no fewer than 4,194,304 and no more than 16,777,216."""

    batch: int = Field(default=1024, ge=1, le=1024)
    open_requests: int = Field(default=1500, ge=1)
    """Requests that may be open at one gateway at the same time; above it callers get a 503 with Retry-After at once.
    A request is open from when its body has come. Those that wait for an outcome are counted apart: there may be 2,000.
    """

    body_seconds: float = Field(default=60, gt=0, le=3600)
    """For how long a body may come; then its caller gets a 408."""

    body_bytes_per_second: float = Field(default=10_000, gt=0)
    """How fast a body comes at least, on average, once it has been coming for ten seconds; else it is a 408 as well."""

    open_bytes: int | None = Field(default=None, ge=1024)
    """Bytes of bodies that one process may hold at the same time, of those that come and of those that are served;
    above it callers get a 503. By default sixteen of the largest. Bodies of up to 65,536 bytes that come at once are
    not counted."""

    share_per_key: float = Field(default=0.75, gt=0, le=1)
    """Of the room that others leave, in requests, in bytes and in requests that wait, what one key may take."""

    @model_validator(mode="after")
    def one_key_can_send_the_largest_body(self) -> "LimitsConfig":
        if self.body_bytes > self.share_per_key * self.most_open_bytes:
            raise ValueError(
                f"open_bytes: a key may take {self.share_per_key:g} of these (share_per_key), which has to hold the"
                f" {self.body_bytes:,} of body_bytes"
            )
        return self

    @property
    def most_open_bytes(self) -> int:
        return 16 * self.body_bytes if self.open_bytes is None else self.open_bytes


ModelName = Annotated[
    str,
    written_as(
        r"^[a-z0-9][a-z0-9_.-]{0,62}$",
        "a model's name has lower-case letters, digits, `_`, `.` and `-`, up to 63 of them, and begins with a letter or"
        " digit",
    ),
]


DATA = Path("var")
"""Where everything is kept unless the configuration names a folder."""


class Config(Section):
    """The whole file."""

    data: Path = DATA
    """Folder of everything that demur itself keeps on this machine."""

    database: str = Field(default="embedded", repr=False)
    """`embedded`, or the address of a PostgreSQL; or where that stands: `env:NAME` or `file:/path`."""

    artifacts: str
    """A folder, or any URL that fsspec understands; by default `artifacts` in the folder of everything else."""

    keep_inputs_days: float | None = Field(default=None, gt=0)
    """After how long inputs are deleted; records stay. By default they are kept. A case that waits keeps its input."""

    keep_records_days: float | None = Field(default=None, gt=0)
    """After how long whole records are deleted, with their outcomes and ended cases. By default they are kept, and so
    is in any case what an open case or a kept report is about."""

    on_difference: Literal["refuse", "warn"] = "refuse"
    """What `demur up` does where a model is configured otherwise than the artifact in force was fitted: the artifact
    decides, so what was changed would not be in force. `warn`: it says so and serves."""

    start_seconds: float = Field(default=300.0, gt=0, le=24 * 3600)
    """For how long `demur up` waits until a gateway answers, models are loaded and the pages are there. A model that is
    not loaded then is served later, if another one is there already; else `demur up` gives up."""

    graceful_stop_seconds: float = Field(default=20.0, gt=0, le=3600)
    """For how long requests that have begun may go on when a process is to stop; then it is killed."""

    models: dict[ModelName, ModelConfig] = Field(min_length=1)
    http: HttpConfig = HttpConfig()
    gateway: GatewayConfig = GatewayConfig()
    console: ConsoleConfig = ConsoleConfig()
    access: AccessConfig | None = None
    """Who gets in. While nothing is said, everybody does, and only this machine can reach the service."""

    review: ReviewConfig = ReviewConfig()
    audit: AuditConfig = AuditConfig()
    redact: RedactConfig | None = None
    """What is taken out of inputs and replies before anything is stored."""

    limits: LimitsConfig = LimitsConfig()
    telemetry: TelemetryConfig = TelemetryConfig()

    @field_validator("database", mode="before")
    @classmethod
    def database_may_stand_elsewhere(cls, value: Any) -> Any:
        return told_elsewhere(value)

    @field_validator("database")
    @classmethod
    def database_is_an_address(cls, value: str) -> str:
        """Check the form of the address before PostgreSQL's library sees it. That library repeats a part that it does
        not understand, and takes a password with a slash in it for a host, so a wrong address could show a password."""
        if value != "embedded" and not DSN.fullmatch(value):
            raise ValueError(
                "write `embedded`, or an address such as postgresql://user:password@host:5432/name, in which user and"
                " password hold letters, digits and -._~ alone, and anything else as %40 for @, %2F for /"
            )
        return value

    @model_validator(mode="before")
    @classmethod
    def artifacts_lie_in_data(cls, values: Any) -> Any:
        """Unless they are named, and so with everything else that demur keeps."""
        if not isinstance(values, Mapping) or values.get("artifacts") is not None:
            return values
        return {**values, "artifacts": str(Path(str(values.get("data", DATA))) / "artifacts")}

    @model_validator(mode="after")
    def goes_together(self) -> "Config":
        gathered = GatheredMistakes()
        for name in self.models:
            with gathered:
                self.cascade(name)
            with gathered:
                self._check_fallbacks(name)
        for at, name in enumerate(self.audit.every_outcome_known):
            with gathered:
                self._check_served(name, f"audit.every_outcome_known.{at}")
        with gathered:
            self._check_inputs_go_first()
        with gathered:
            check_webhooks(self.review.webhooks, list(self.models))
        with gathered:
            check_reviewed_models(self.review.models, {name: model.task for name, model in self.models.items()})
        for at, rule in enumerate(self.review.rules):
            with gathered:
                self._check_rule(rule, f"review.rules.{at}.when")
        gathered.check()
        return self

    def _check_served(self, name: str, place: str) -> None:
        if name not in self.models:
            raise ValueError(
                f"{place}: there is no model {name!r}; there are: {', '.join(self.models)}"
                f"{did_you_mean(name, self.models)}"
            )

    def _check_inputs_go_first(self) -> None:
        if self.keep_records_days is not None and (self.keep_inputs_days or 0) > self.keep_records_days:
            raise ValueError(
                "keep_inputs_days: an input goes with its record at the latest; give no more than keep_records_days,"
                f" {self.keep_records_days:g}"
            )

    def _check_rule(self, rule: ReviewRule, place: str) -> None:
        """A score in a rule is one of every model that the rule is about, or of one that is asked after it."""
        for at, name in enumerate(rule.when.models or ()):
            self._check_served(name, f"{place}.models.{at}")
        for name in rule.when.models or self.models:
            known = list(dict.fromkeys(one for model in self.cascade(name).values() for one in model.recorded_scores))
            if unknown := [score for score in rule.when.scores if score not in known]:
                raise ValueError(
                    f"{place}.scores.{unknown[0]}: model {name!r} has no score {unknown[0]!r}; it has:"
                    f" {', '.join(known)}{did_you_mean(unknown[0], known)}; or name other models with `models`"
                )

    def cascade(self, name: str) -> dict[str, ModelConfig]:
        """The model and those that are asked after it, in turn, by name."""
        in_turn = {name: self.model(name)}
        while following := list(in_turn.values())[-1].escalate_to:
            place, first = f"models.{name}.escalate_to", in_turn[name]
            if following in in_turn:
                raise ValueError(f"{place}: the cascade goes round in a circle: {' - '.join([*in_turn, following])}")
            self._check_served(following, place)
            in_turn[following] = self.models[following]
            if not first.task.means_the_same_as(in_turn[following].task):
                raise ValueError(f"{place}: {following!r} has another task than {name!r}; both need the same labels")
            if in_turn[following].right != first.right:
                raise ValueError(f"{place}: {following!r} has another `confidence.right` than {name!r}")
            try:
                check_follows(first.recipe, in_turn[following].recipe)
            except ValueError as error:
                raise ValueError(f"{place}: {following!r} cannot follow {name!r}: {error}") from None
        return in_turn

    def _check_fallbacks(self, name: str) -> None:
        """Raise `ValueError` where what is asked in the place of a model cannot stand in for it."""
        place, asked = f"models.{name}.fall_back_to", [name]
        while following := self.models[asked[-1]].fall_back_to:
            if following in asked:
                raise ValueError(f"{place}: it goes round in a circle: {' - '.join([*asked, following])}")
            if following not in self.models:
                raise ValueError(
                    f"{place}: there is no model {following!r}; there are: {', '.join(self.models)}"
                    f"{did_you_mean(following, self.models)}"
                )
            if not self.models[name].task.means_the_same_as(self.models[following].task):
                raise ValueError(f"{place}: {following!r} has another task than {name!r}; both need the same labels")
            if self.models[following].chat.proxy:
                raise ValueError(f"{place}: {following!r} decides nothing (chat.proxy); name a model that does")
            asked.append(following)

    def model(self, name: str) -> ModelConfig:
        if name not in self.models:
            raise BadConfig(
                f"there is no model {name!r} in the configuration; it has: {', '.join(self.models)}"
                f"{did_you_mean(name, self.models)}"
            )
        return self.models[name]

    def precedence(self, name: str) -> Precedence:
        """Which outcomes of this model's records count; the latest ones where it is no longer served."""
        return self.models[name].outcomes.precedence if name in self.models else LATEST


SETTINGS_OF_PARTS: Mapping[Steps, set[str]] = {
    ("models", ANY, "policy"): settings_of(POLICIES),
    ("models", ANY, "prediction_set"): settings_of({**SETS, **MULTILABEL_SETS}),
}
"""Keys that no section knows, because they go to what a `kind` names."""


def with_absolute_paths(config: Config, base: Path) -> Config:
    """Return the configuration for processes that run in another folder."""

    def file(path: Path | None) -> Path | None:
        return None if path is None else (base / path).resolve()

    def prompt(model: ModelConfig) -> PromptConfig:
        asked, few_shot = model.prompt, model.prompt.few_shot
        if few_shot is not None:
            examples = few_shot.examples
            told = {
                "examples": file(examples) if isinstance(examples, Path) else examples,
                "embedding": placed_folder(base, few_shot.embedding),
            }
            few_shot = few_shot.model_copy(update=told)
        return asked.model_copy(
            update={name: file(getattr(asked, name)) for name in TEMPLATES_OF_A_PROMPT} | {"few_shot": few_shot}
        )

    models = {
        name: model.model_copy(
            update={
                "task": model.task.at(base),
                "host": model.host.at(base),
                "prompt": prompt(model),
                "examples": file(model.examples),
            }
        )
        for name, model in config.models.items()
    }
    artifacts = config.artifacts if "://" in config.artifacts else str((base / config.artifacts).resolve())
    rows = config.audit.rows
    if rows is not None and "://" not in rows:
        rows = str((base / rows).resolve())
    return config.model_copy(
        update={
            "models": models,
            "artifacts": artifacts,
            "audit": config.audit.model_copy(update={"rows": rows}),
            "data": (base / config.data).resolve(),
        }
    )
