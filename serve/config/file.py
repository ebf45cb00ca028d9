"""The configuration: one YAML file, read once, as one frozen tree. Unknown keys are refused."""

import re
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError, field_validator, model_validator

from policies.selector_recipe import SelectorRecipe
from serve.config.access import AccessConfig
from serve.config.audits import AuditConfig
from serve.config.control import ControlConfig, check_control
from serve.config.hosts import ChatConfig, ClassifierHost, HostConfig, OpenAIHost, PromptConfig, SamplesConfig
from serve.config.monitor import MonitorConfig, Monitored, read_monitor
from serve.config.recipe import check_follows, recipe_of
from serve.config.redact import RedactConfig
from serve.config.review import ReviewConfig
from serve.config.scaling import ConsoleConfig, GatewayConfig
from serve.config.secret import told_elsewhere
from serve.config.settings import Section, complaint
from serve.config.spot_checks import SpotCheckConfig, read_spot_check
from serve.config.task import TaskConfig
from serve.config.telemetry import TelemetryConfig
from serve.config.webhooks import check_webhooks
from serve.language.forms import check_prompts
from serve.language.prompts import BadPrompt
from serve.language.task_settings import check_task_settings
from traffic.outcomes import LATEST, Precedence

TEMPLATES_OF_A_PROMPT = ("template", "mapping_template", "rating_template", "pair_template")


class BadConfig(ValueError):
    """The configuration cannot be used. The message names the key, what is wrong, and what would be right."""


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

    report_share: float = Field(default=0.4, gt=0, lt=1)
    """Share of the labelled rows that is kept out of the fit, to report on."""

    seed: int = 0


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

    @field_validator("spot_check", mode="before")
    @classmethod
    def is_a_rate_or_rates(cls, value: Any) -> float | SpotCheckConfig:
        return read_spot_check(value)

    @field_validator("monitor", mode="before")
    @classmethod
    def is_a_monitor_or_none(cls, value: Any) -> Monitored:
        return read_monitor(value)

    @model_validator(mode="after")
    def one_model_streams(self) -> "ModelConfig":
        if self.chat.stream == "tentative" and self.escalate_to:
            raise ValueError("chat.stream: what one model streams cannot become another's answer; write `hold`")
        return self

    @model_validator(mode="after")
    def parts_exist(self) -> "ModelConfig":
        check_task_settings(self)
        _ = self.recipe
        check_control(self)
        return self

    @cached_property
    def recipe(self) -> SelectorRecipe:
        """The selector that is configured here, before it has seen data."""
        return recipe_of(self)

    @property
    def recorded_scores(self) -> tuple[str, ...]:
        """Names of the scores on the record."""
        return (*self.recipe.scores, *self.recipe.combinations)

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


PART = r"(?:[^\s@/?#%]|%[0-9A-Fa-f]{2})*"
HOST = r"(?:\[[^\s\]]*\]|(?:[^\s@/?#%:,\[\]]|%[0-9A-Fa-f]{2})*)(?::\d*)?"
DSN = re.compile(rf"postgres(ql)?://({PART}@)?{HOST}(,{HOST})*(/{PART})?(\?\S*)?")
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
    image_pixels: int = Field(default=4096 * 4096, ge=1)
    batch: int = Field(default=1024, ge=1, le=1024)
    open_requests: int = Field(default=1500, ge=1)
    """Requests that may be open at one gateway at the same time; above it callers get a 503 with Retry-After at once.
    Those that wait for an outcome are counted apart: there may be 2,000."""


ModelName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]


class Config(Section):
    """The whole file."""

    data: Path = Path("var")
    """Folder of everything that demur itself keeps on this machine."""

    database: str = Field(default="embedded", repr=False)
    """`embedded`, or the address of a PostgreSQL; or where that stands: `env:NAME` or `file:/path`."""

    artifacts: str = "var/artifacts"
    """A folder, or any URL that fsspec understands."""

    keep_inputs_days: float | None = Field(default=None, gt=0)
    """After how long inputs are deleted; records stay. By default they are kept. A case that waits keeps its input."""

    keep_records_days: float | None = Field(default=None, gt=0)
    """After how long whole records are deleted, with their outcomes and ended cases. By default they are kept, and so
    is in any case what an open case or a kept report is about."""

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
        """Of an address that is written wrongly, PostgreSQL's library repeats the part that it does not understand, and
        takes a password with a slash in it for a host: it gets none."""
        if value != "embedded" and not DSN.fullmatch(value):
            raise ValueError(
                "write `embedded`, or an address such as postgresql://user:password@host:5432/name, in which user and"
                " password hold letters, digits and -._~ alone, and anything else as %40 for @, %2F for /"
            )
        return value

    @model_validator(mode="after")
    def cascades_end(self) -> "Config":
        for name in self.models:
            self.cascade(name)
        return self

    @model_validator(mode="after")
    def audited_models_exist(self) -> "Config":
        for name in self.audit.every_outcome_known:
            if name not in self.models:
                raise ValueError(
                    f"audit.every_outcome_known: there is no model {name!r}; there are: {', '.join(self.models)}"
                )
        return self

    @model_validator(mode="after")
    def inputs_go_first(self) -> "Config":
        if self.keep_records_days is not None and (self.keep_inputs_days or 0) > self.keep_records_days:
            raise ValueError(
                "keep_inputs_days: an input goes with its record at the latest; give no more than keep_records_days,"
                f" {self.keep_records_days:g}"
            )
        return self

    @model_validator(mode="after")
    def webhooks_fit(self) -> "Config":
        check_webhooks(self.review.webhooks, list(self.models))
        return self

    @model_validator(mode="after")
    def rules_can_apply(self) -> "Config":
        """A score in a rule is one of every model that the rule is about, or of one that is asked after it."""
        for n, rule in enumerate(self.review.rules):
            place = f"review.rules.{n}.when"
            for name in rule.when.models or self.models:
                if name not in self.models:
                    raise ValueError(f"{place}.models: there is no model {name!r}; there are: {', '.join(self.models)}")
                known = [score for model in self.cascade(name).values() for score in model.recorded_scores]
                if unknown := [score for score in rule.when.scores if score not in known]:
                    raise ValueError(
                        f"{place}.scores: model {name!r} has no score {unknown[0]!r}; it has:"
                        f" {', '.join(dict.fromkeys(known))}; or name other models with `models`"
                    )
        return self

    def cascade(self, name: str) -> dict[str, ModelConfig]:
        """The model and those that are asked after it, in turn, by name."""
        road = {name: self.model(name)}
        while following := list(road.values())[-1].escalate_to:
            place, first = f"models.{name}.escalate_to", road[name]
            if following in road:
                raise ValueError(f"{place}: the cascade goes round in a circle: {' - '.join([*road, following])}")
            if following not in self.models:
                raise ValueError(f"{place}: there is no model {following!r}; there are: {', '.join(self.models)}")
            road[following] = self.models[following]
            if not first.task.means_the_same_as(road[following].task):
                raise ValueError(f"{place}: {following!r} has another task than {name!r}; both need the same labels")
            if road[following].right != first.right:
                raise ValueError(f"{place}: {following!r} has another `confidence.right` than {name!r}")
            try:
                check_follows(first.recipe, road[following].recipe)
            except ValueError as error:
                raise ValueError(f"{place}: {following!r} cannot follow {name!r}: {error}") from None
        return road

    def model(self, name: str) -> ModelConfig:
        if name not in self.models:
            raise BadConfig(f"there is no model {name!r} in the configuration; it has: {', '.join(self.models)}")
        return self.models[name]

    def precedence(self, name: str) -> Precedence:
        """Which outcomes of this model's records count; the latest ones where it is no longer served."""
        return self.models[name].outcomes.precedence if name in self.models else LATEST


def load_config(path: Path) -> Config:
    """Read and check a file. Relative paths in it are relative to the working directory."""
    if not path.is_file():
        raise BadConfig(f"there is no configuration file {path}")
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadConfig(f"{path} is not YAML: {' '.join(str(error).split())}") from None
    if not isinstance(content, dict):
        raise BadConfig(f"{path} is not a mapping with `models:` in it")
    try:
        config = with_absolute_paths(Config.model_validate(content), Path.cwd())
    except ValidationError as error:
        raise BadConfig(f"{path}: {complaint(error)}") from None
    for name, model in config.models.items():
        _check_prompts(f"{path}: models.{name}.prompt", model)
    return config


def _check_prompts(place: str, model: ModelConfig) -> None:
    """What a prompt is made of is there, and can be asked."""
    if isinstance(model.host, ClassifierHost):
        return
    try:
        check_prompts(model)
    except BadPrompt as error:
        raise BadConfig(f"{place}: {error}") from None
    few_shot = model.prompt.few_shot
    if few_shot and isinstance(few_shot.examples, Path) and not few_shot.examples.is_file():
        raise BadConfig(f"{place}.few_shot.examples: there is no file {few_shot.examples}")


def with_absolute_paths(config: Config, base: Path) -> Config:
    """The same configuration for processes that run in another folder."""

    def file(path: Path | None) -> Path | None:
        return None if path is None else (base / path).resolve()

    def folder(name: str) -> str:
        """A folder, or a name that is meant for a hub."""
        return str((base / name).resolve()) if (base / name).is_dir() else name

    def host(model: ModelConfig) -> HostConfig:
        changed: dict[str, Any] = {}
        if not isinstance(model.host, ClassifierHost) and (rated := model.host.tournament):
            changed["tournament"] = rated.model_copy(update={"ratings": file(rated.ratings)})
        if not isinstance(model.host, OpenAIHost):
            changed["checkpoint"] = folder(model.host.checkpoint)
        return model.host.model_copy(update=changed)

    def prompt(model: ModelConfig) -> PromptConfig:
        asked, few_shot = model.prompt, model.prompt.few_shot
        if few_shot is not None:
            examples = few_shot.examples
            told = {
                "examples": file(examples) if isinstance(examples, Path) else examples,
                "embedding": folder(few_shot.embedding),
            }
            few_shot = few_shot.model_copy(update=told)
        return asked.model_copy(
            update={name: file(getattr(asked, name)) for name in TEMPLATES_OF_A_PROMPT} | {"few_shot": few_shot}
        )

    models = {
        name: model.model_copy(update={"host": host(model), "prompt": prompt(model)})
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
