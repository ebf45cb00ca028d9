"""The configuration: one YAML file, read once, as one frozen tree. Unknown keys are refused."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from policies.label_sets import SETS, PredictionSetsRecipe
from policies.prediction import LABEL_LIMITS, MostProbable, PredictorRecipe
from policies.selector import POLICIES, PolicyRecipe, SelectorRecipe, acts_on_sets
from uncertainty.calibrators import CALIBRATORS, FOR_SHARES, CalibratorRecipe
from uncertainty.combination import COMBINATIONS, CombinationRecipe, Logistic
from uncertainty.label_confidence import LABEL_CALIBRATORS, LabelCalibratorRecipe
from uncertainty.output import Link
from uncertainty.scores import ONLY_FOR, SCORES, ScoreRecipe


class BadConfig(ValueError):
    """The configuration cannot be used. The message names the key, what is wrong, and what would be right."""


class Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TaskConfig(Section):
    """What the model decides between."""

    kind: Literal["binary", "multiclass", "multilabel"]
    """One of two labels; one of several; or each label by itself."""

    labels: tuple[str, ...] = Field(min_length=1, max_length=10_000)
    """In the order of the checkpoint's outputs. In a binary task the second one is the positive one."""

    thresholds: str | dict[str, dict[str, Any]] | None = None
    """From which probability on a label of a multilabel task is predicted: `fixed` (0.5, or another `limit`),
    `max_f1`, each label's own, or `risk_control`, one that misses at most a share `alpha` of the labels."""

    @model_validator(mode="after")
    def labels_suit_the_kind(self) -> "TaskConfig":
        twice = sorted(label for label, times in Counter(self.labels).items() if times > 1)
        if twice:
            raise ValueError(f"labels appear twice: {', '.join(twice)}")
        if self.kind == "binary" and len(self.labels) != 2:
            raise ValueError(f"a binary task has 2 labels, the negative one first; there are {len(self.labels)}")
        if self.kind == "multiclass" and len(self.labels) < 2:
            raise ValueError("a multiclass task has 2 labels or more")
        if self.thresholds is not None and self.exclusive:
            raise ValueError(f"thresholds are for multilabel tasks; in a {self.kind} one the most probable label wins")
        _ = self.predictor
        return self

    @property
    def exclusive(self) -> bool:
        """Whether exactly one label is right."""
        return self.kind != "multilabel"

    @property
    def link(self) -> Link:
        return "softmax" if self.exclusive else "sigmoid"

    @cached_property
    def predictor(self) -> PredictorRecipe:
        if self.exclusive:
            return MostProbable()
        name, settings = _named("thresholds", self.thresholds or "fixed")
        predictor: PredictorRecipe = _part("thresholds", LABEL_LIMITS, name, settings)
        return predictor


class BatchConfig(Section):
    """How requests for one model are gathered. There is no waiting time: a batch leaves when the host is free."""

    max_size: int = Field(default=64, ge=1, le=4096)
    in_flight: int = Field(default=2, ge=1, le=64)
    """Batches on their way to the host at the same time, for each replica."""

    max_queued: int = Field(default=4096, ge=1)
    """Predictions that may wait at a gateway; above it callers get a 503 with Retry-After."""


class HostConfig(Section):
    """Where the model comes from and what it runs on."""

    kind: Literal["classifier"]
    checkpoint: str
    """A folder, or the name of a model on a hub."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|cuda(:\d+)?|mps)$")
    batch: BatchConfig = BatchConfig()
    mc_passes: int = Field(default=20, ge=1, le=1000)
    """Passes with dropout left on, made only when a score asks for them."""

    timeout_seconds: float = Field(default=10.0, gt=0)
    """How long a batch may take; what takes longer is held for a person."""

    replicas: int = Field(default=1, ge=1)
    cpus: float = Field(default=1.0, ge=0)
    gpus: float | None = Field(default=None, ge=0)
    """GPUs of each replica; by default one if the device is not the CPU and the cluster has any."""


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

    prediction_set: dict[str, Any] = {}
    """`kind`, by default `split`, and the settings of that kind: the labels shown beside a prediction."""

    label_confidence: str | dict[str, dict[str, Any]] | None = None
    """How the probabilities of the most probable labels of a multilabel task are calibrated."""

    spot_check: float = Field(default=0.0, ge=0, le=1)
    """Share of the predictions that are not held for review, drawn at random, that a person looks at all the same: from
    them it can be told how often answers are wrong."""

    calibration: CalibrationConfig = CalibrationConfig()

    @model_validator(mode="after")
    def parts_exist(self) -> "ModelConfig":
        _ = self.recipe
        return self

    @cached_property
    def recipe(self) -> SelectorRecipe:
        """The selector that is configured here, before it has seen data."""
        scores: dict[str, ScoreRecipe] = {}
        combinations: dict[str, CombinationRecipe] = {}
        for entry in self.scores:
            kind, settings = _named("scores", entry)
            settings = dict(settings)
            name = settings.pop("as", kind)
            if name in scores or name in combinations:
                raise ValueError(f"scores: {name!r} is listed twice; give one of them another name with `as`")
            if kind in COMBINATIONS:
                combinations[name] = _part("scores", COMBINATIONS, kind, settings)
            else:
                scores[name] = _part("scores", SCORES, kind, settings, also=COMBINATIONS)
                if ONLY_FOR.get(kind, self.task.link) != self.task.link:
                    fitting = [other for other in SCORES if ONLY_FOR.get(other, self.task.link) == self.task.link]
                    raise ValueError(
                        f"scores: {kind} is not defined for a {self.task.kind} task; these are: {', '.join(fitting)}"
                    )
        for name, mix in combinations.items():
            if missing := [source for source in mix.sources if source not in scores]:
                raise ValueError(
                    f"scores: {name} is made of {', '.join(mix.sources)}; list {', '.join(missing)} as well"
                )
        if self.confidence.score not in {**scores, **combinations}:
            raise ValueError(
                f"confidence.score: {self.confidence.score!r} is not among the scores:"
                f" {', '.join((*scores, *combinations))}"
            )
        rule = dict(self.policy)
        kind = rule.pop("kind", None)
        policy: PolicyRecipe = _part("policy.kind", POLICIES, kind, rule)
        self._check_right(kind, policy, [entry for entry in combinations.values() if isinstance(entry, Logistic)])
        return SelectorRecipe(
            scores=scores,
            combinations=combinations,
            confidence_score=self.confidence.score,
            calibrator=self._calibrator(),
            policy=policy,
            predictor=self.task.predictor,
            right=self.right,
            sets=self._sets(policy),
            label_calibrator=self._label_calibrator(),
        )

    @property
    def right(self) -> str:
        """What a prediction is worth once the truth is known."""
        return self.confidence.right or ("exact" if self.task.exclusive else "jaccard")

    def _calibrator(self) -> CalibratorRecipe:
        name, settings = _named("confidence.calibrator", self.confidence.calibrator)
        calibrator: CalibratorRecipe = _part("confidence.calibrator", CALIBRATORS, name, settings)
        if self.right != "exact" and name not in FOR_SHARES:
            raise ValueError(
                f"confidence.calibrator: {name} is fitted to predictions that are right or wrong, and `right:"
                f" {self.right}` knows degrees; use {' or '.join(sorted(FOR_SHARES))}, or `right: exact`"
            )
        if calibrator.reads == "logits" and not self.task.exclusive:
            raise ValueError(
                f"confidence.calibrator: {name} reads the logits of labels that exclude each other, which those of a"
                " multilabel task do not"
            )
        return calibrator

    def _sets(self, policy: PolicyRecipe) -> PredictionSetsRecipe | None:
        settings = dict(self.prediction_set)
        kind = settings.pop("kind", "split")
        recipe: PredictionSetsRecipe = _part("prediction_set", SETS, kind, settings)
        if self.task.exclusive:
            return recipe
        if "kind" in self.prediction_set:
            raise ValueError("prediction_set: in a multilabel task the predicted labels are the set; leave out `kind`")
        if acts_on_sets(policy):
            raise ValueError(
                f"policy: {self.policy['kind']} acts on prediction sets, which a multilabel task does not have"
            )
        return None

    def _label_calibrator(self) -> LabelCalibratorRecipe | None:
        if self.task.exclusive:
            if self.label_confidence is not None:
                raise ValueError("label_confidence is for multilabel tasks; here confidence is that of the one label")
            return None
        name, settings = _named("label_confidence", self.label_confidence or "isotonic")
        recipe: LabelCalibratorRecipe = _part("label_confidence", LABEL_CALIBRATORS, name, settings)
        return recipe

    def _check_right(self, name: str, policy: PolicyRecipe, logistic: Sequence[Logistic]) -> None:
        if self.right == "jaccard" and self.task.exclusive:
            raise ValueError("confidence.right: jaccard is for multilabel tasks; one label is right or wrong")
        if self.right == "exact":
            return
        if policy.certifies:
            raise ValueError(f"policy: {name} counts errors; it needs `confidence: {{right: exact}}`")
        if logistic:
            raise ValueError("scores: logistic learns from right and wrong; it needs `confidence: {right: exact}`")


class HttpConfig(Section):
    host: str = "127.0.0.1"
    port: int = Field(default=8000, ge=1, le=65535)


class ReviewConfig(Section):
    lease_seconds: float = Field(default=600, gt=0)
    """How long a claimed case is kept for the person who claimed it."""


class LimitsConfig(Section):
    """What a single request may ask for."""

    body_bytes: int = Field(default=16 * 2**20, ge=1024)
    text_characters: int = Field(default=100_000, ge=1)
    image_pixels: int = Field(default=4096 * 4096, ge=1)
    batch: int = Field(default=1024, ge=1, le=1024)


ModelName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_.-]{0,62}$")]


class Config(Section):
    """The whole file."""

    data: Path = Path("var")
    """Folder of everything that demur itself keeps on this machine."""

    database: str = Field(default="embedded", pattern=r"^(embedded|postgres(ql)?://.*)$")
    """`embedded`, or the address of a PostgreSQL."""

    artifacts: str = "var/artifacts"
    """A folder, or any URL that fsspec understands."""

    keep_inputs_days: float | None = Field(default=None, gt=0)
    """After how long inputs are deleted; records stay. By default they are kept. A case that waits keeps its input."""

    models: dict[ModelName, ModelConfig] = Field(min_length=1)
    http: HttpConfig = HttpConfig()
    review: ReviewConfig = ReviewConfig()
    limits: LimitsConfig = LimitsConfig()

    def model(self, name: str) -> ModelConfig:
        if name not in self.models:
            raise BadConfig(f"there is no model {name!r} in the configuration; it has: {', '.join(self.models)}")
        return self.models[name]


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
        return with_absolute_paths(Config.model_validate(content), Path.cwd())
    except ValidationError as error:
        raise BadConfig(f"{path}: {complaint(error)}") from None


def with_absolute_paths(config: Config, base: Path) -> Config:
    """The same configuration for processes that run in another folder."""

    def host(model: ModelConfig) -> HostConfig:
        folder = base / model.host.checkpoint
        return model.host.model_copy(
            update={"checkpoint": str(folder.resolve()) if folder.is_dir() else model.host.checkpoint}
        )

    models = {name: model.model_copy(update={"host": host(model)}) for name, model in config.models.items()}
    artifacts = config.artifacts if "://" in config.artifacts else str((base / config.artifacts).resolve())
    return config.model_copy(update={"models": models, "artifacts": artifacts, "data": (base / config.data).resolve()})


def complaint(error: ValidationError) -> str:
    """What pydantic found, as one sentence for each mistake."""
    return "; ".join(
        ": ".join(filter(None, (".".join(str(step) for step in mistake["loc"]), _in_words(mistake))))
        for mistake in error.errors()
    )


def _in_words(mistake: Mapping[str, Any]) -> str:
    if mistake["type"] == "extra_forbidden":
        return "this key is not known; check its spelling and its place"
    text = str(mistake["msg"]).removeprefix("Value error, ")
    return text[:1].lower() + text[1:]


def _named(place: str, entry: str | dict[str, dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    if isinstance(entry, str):
        return entry, {}
    if len(entry) != 1:
        raise ValueError(
            f"{place}: write a name, or one name with its settings, like `mahalanobis: {{shrinkage: 0.1}}`"
        )
    return next(iter(entry.items()))


def _part(
    place: str,
    table: Mapping[str, Callable[..., Any]],
    name: Any,
    settings: dict[str, Any],
    *,
    also: Iterable[str] = (),
) -> Any:
    """Build what a table offers under this name, from settings whose names and types are checked."""
    if name not in table:
        raise ValueError(f"{place}: {name!r} is not one of: {', '.join((*table, *also))}")
    kind = table[name]
    offered = [field.name for field in fields(kind)] if isinstance(kind, type) else []
    for setting in settings:
        if setting not in offered:
            raise ValueError(f"{place}: {name} has no setting {setting!r}; it takes: {', '.join(offered) or 'none'}")
    if not isinstance(kind, type):
        return kind()
    try:
        return TypeAdapter(kind).validate_python(settings)
    except ValidationError as error:
        raise ValueError(f"{place}: {name}: {complaint(error)}") from None
