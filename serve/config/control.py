"""What of a model's stream is controlled: `models.<name>.control` in the configuration (METHODS 9.5)."""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from demur.policies.control import AdaptiveLevel, ControlledValue, PricedReviews, TrackedRate, TrackedRisk
from demur.policies.review_price import ReviewPrice
from demur.policies.review_rate import ReviewRate
from demur.policies.tracked_limit import TrackedLimit
from demur.serve.config.settings import Section

MOST_PER_LABEL = 0.05
"""How far one label may move a limit on confidence, which ranges over 1: beyond a few percent the limit swings between
answering all and nothing (METHODS 9.9)."""

DEFAULT_PER_LABEL = 0.02
"""How far one label moves it where no step is written."""

ON_AVERAGE = "on average over the whole stream"

Share = Annotated[float, Field(ge=0, le=1)]
Inner = Annotated[float, Field(gt=0, lt=1)]
Step = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class ReviewPriceConfig(Section):
    """People's time has a price, which follows how much of it is used."""

    kind: Literal["review_price"]
    capacity: Share
    """Share of all predictions that people can look at, spot checks not counted."""

    step: Step = 0.01
    """How far the price moves for one review."""

    error_cost: Cost = 1.0
    review_cost: Cost = 0.1
    start: Cost = 0.0
    """The first price."""

    @model_validator(mode="after")
    def is_a_rule(self) -> "ReviewPriceConfig":
        self.control(1.0)
        return self

    @property
    def words(self) -> str:
        return f"at most {100 * self.capacity:g}% go to review, {ON_AVERAGE}"

    def control(self, least: float) -> PricedReviews:  # noqa: ARG002 - labels move nothing here
        rule = ReviewPrice(
            capacity=self.capacity, step=self.step, error_cost=self.error_cost, review_cost=self.review_cost
        )
        return PricedReviews(rule=rule)


class ReviewRateConfig(Section):
    """A fixed share goes to review, the least sure."""

    kind: Literal["review_rate"]
    target: Share
    """Of the predictions whose confidence is known."""

    step: Step = 0.01
    """How far the limit on confidence moves for one prediction."""

    start: Share = 0.5
    """The first limit."""

    @property
    def words(self) -> str:
        return f"{100 * self.target:g}% lie below a limit on confidence and go to review, {ON_AVERAGE}"

    def control(self, least: float) -> TrackedRate:  # noqa: ARG002 - labels move nothing here
        return TrackedRate(rule=ReviewRate(target=self.target, step=self.step))


class TrackedLimitConfig(Section):
    """A limit that follows errors among spot-checked answers."""

    kind: Literal["tracked_limit"]
    max_risk: Inner
    """Share of all requests that is answered and wrong."""

    step: Step | None = None
    """By default 0.02 times the least probability of a spot check: one label then moves the limit by at most 0.02."""

    start: Share = 0.0
    """The first limit on confidence; at 0 the artifact's rule alone decides."""

    @property
    def words(self) -> str:
        return f"at most {100 * self.max_risk:g}% of all requests are answered and wrong, {ON_AVERAGE}"

    def control(self, least: float) -> TrackedRisk:
        step = DEFAULT_PER_LABEL * least if self.step is None else self.step
        return TrackedRisk(rule=TrackedLimit(target=self.max_risk, step=step), least=least)


class AdaptiveSetsConfig(Section):
    """Prediction sets at an error level that follows their own misses among drawn labels."""

    kind: Literal["adaptive_sets"]
    alpha: Inner
    """Share of the sets that may miss the truth."""

    step: Step | None = None
    """By default 0.02 times the least probability of a spot check: one label then moves the level by at most 0.02."""

    @property
    def words(self) -> str:
        return f"{100 * self.alpha:g}% of the prediction sets miss the right label, {ON_AVERAGE}"

    def control(self, least: float) -> AdaptiveLevel:
        step = DEFAULT_PER_LABEL * least if self.step is None else self.step
        return AdaptiveLevel(alpha=self.alpha, step=step, least=least)


ControlConfig = Annotated[
    ReviewPriceConfig | ReviewRateConfig | TrackedLimitConfig | AdaptiveSetsConfig, Field(discriminator="kind")
]


def settings_of(model: Any) -> dict[str, Any]:
    """What a model's control (`ModelConfig`) is, in full: with other settings its state begins anew."""
    told = model.control.model_dump()
    control = model.control.control(model.least_label_probability)
    step = control.step if isinstance(control, AdaptiveLevel) else control.rule.step
    return {**told, "step": step}


def first_course(settings: ControlConfig) -> ControlledValue:
    """Where a control begins that has seen nothing yet."""
    if isinstance(settings, AdaptiveSetsConfig):
        return ControlledValue.at(settings.alpha)
    return ControlledValue.at(1 - settings.start if isinstance(settings, TrackedLimitConfig) else settings.start)


def check_control(model: Any) -> None:
    """Raise `ValueError` unless what controls a model (`ModelConfig`) can work there."""
    told = model.control
    if told is None:
        return
    if isinstance(told, AdaptiveSetsConfig):
        _check_sets(model)
    elif model.recipe.policy.otherwise != "review":
        raise ValueError(
            f"control: {told.kind} settles what people look at, and `policy.otherwise: abstain` asks nobody; write"
            " `otherwise: review`, or leave `control` out"
        )
    if isinstance(told, TrackedLimitConfig | AdaptiveSetsConfig):
        _check_labels(told, model)


def _check_labels(told: TrackedLimitConfig | AdaptiveSetsConfig, model: Any) -> None:
    if model.spot_checks is None:
        raise ValueError(f"control: {told.kind} learns from labels of answers drawn by chance; set `spot_check`")
    least: float = model.spot_checks.least
    if told.step is not None and told.step > MOST_PER_LABEL * least:
        raise ValueError(
            f"control.step: at a spot check of {least:g} one label would move the limit by up to"
            f" {told.step / least:.3g} of its range, and it would swing between answering all and nothing; write at"
            f" most {MOST_PER_LABEL * least:.3g}, or check more"
        )


def _check_sets(model: Any) -> None:
    sets = model.prediction_set
    if not model.task.exclusive or model.escalate_to or sets.get("kind", "split") != "split":
        raise ValueError(
            "control: adaptive_sets moves the level of sets of kind `split`, of one model whose labels exclude each"
            " other"
        )
    if sets.get("delta") is not None:
        raise ValueError(
            "control: adaptive_sets keeps an average over a long run, and `prediction_set.delta` promises something of"
            " one fit; leave one of them out"
        )
    if sets.get("keep_predicted", True):
        raise ValueError(
            "control: adaptive_sets counts what the sets miss, and a set that is always shown with the prediction"
            " hides that; write `prediction_set: {kind: split, keep_predicted: false}`"
        )
