"""What is controlled in each model's stream and how that stands, in the words of people and of machines."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from math import inf, nan

from pydantic import BaseModel, Field

from demur.audit.state import control_states
from demur.audit.state.control_states import ControlState, Point
from demur.policies.control import AdaptiveLevel, Control, ControlledValue, PricedReviews, TrackedRate, TrackedRisk
from demur.serve.config.control import settings_of
from demur.serve.config.file import Config, ModelConfig
from demur.serve.web.shared.quantities import percent
from demur.traffic.database import Connection

SILENT_AFTER = timedelta(minutes=1)
"""A lane of which nothing is heard for so long moves no more, or cannot be written."""

LANES_DRAWN = 5


class LaneView(BaseModel):
    """One value, as one gateway moves it; or the only one, where labels do."""

    value: float = Field(description="The price; else the limit on confidence, or the error level of sets.")
    n: int = Field(description="Predictions that its average is over.")
    average: float | None = Field(description="What is controlled, over these; null before the first.")
    artifact: str | None = Field(description="That decided last.")
    began_at: datetime
    updated_at: datetime


class ControlView(BaseModel):
    """The control of one model."""

    model: str
    kind: str
    target: float = Field(description="What the long-run average is to come to, or to keep within.")
    average: float | None = Field(description="Over all lanes; null before the first prediction.")
    n: int = Field(description="Predictions that the average is over.")
    lower: float | None = Field(description="Whatever the stream was, the average is at least this; null: no bound.")
    upper: float | None = Field(description="Whatever the stream was, the average is at most this; null: no bound yet.")
    settings: dict[str, float | str]
    lanes: list[LaneView] = Field(description="The one that was moved last comes first.")


class ControlsView(BaseModel):
    about: str = "Averages over the whole stream in the long run. Nothing is promised for a day, a group or a record."
    controls: list[ControlView]


@dataclass(frozen=True, kw_only=True)
class ControlPanel:
    """What the page tells of one control."""

    view: ControlView
    what: str
    """What is controlled, in a sentence or two."""

    value: str
    """What the value is called."""

    means: str
    """What the present value does; empty before there is one."""

    averaged: str
    """What the average is of."""

    silent: bool
    """Whether nothing has been written of late."""

    histories: list[list[Point]]
    """Of the lanes that were moved last, with their values as people read them."""


def controls_of(config: Config) -> dict[str, Control]:
    """The models that are controlled, by name."""
    return {
        name: model.control.control(model.least_label_probability)
        for name, model in config.models.items()
        if model.control is not None
    }


def view_of(connection: Connection, name: str, model: ModelConfig, control: Control) -> ControlView:
    """How the control of a model stands."""
    states = control_states.states(connection, name, settings_of(model))
    courses = [ControlledValue(**state.course) for state in states]
    n = sum(course.n for course in courses)
    ends = [control.reach(course) for course in courses]
    lower, upper = (
        sum(course.n * end[side] for course, end in zip(courses, ends, strict=True) if course.n) / n if n else nan
        for side in (0, 1)
    )
    return ControlView(
        model=name,
        kind=control.kind,
        target=target_of(control),
        average=sum(course.total for course in courses) / n if n else None,
        n=n,
        lower=_known(lower),
        upper=_known(upper),
        settings=settings_of(model),
        lanes=[_lane(control, state, course) for state, course in zip(states, courses, strict=True)],
    )


def shown(connection: Connection, config: Config, now: datetime) -> list[ControlPanel]:
    """All controls, as the page tells of them."""
    found = []
    for name, control in controls_of(config).items():
        view = view_of(connection, name, config.models[name], control)
        states = control_states.states(connection, name, settings_of(config.models[name]))[:LANES_DRAWN]
        what, value, averaged = words_of(control)
        found.append(
            ControlPanel(
                view=view,
                what=what,
                value=value,
                means=meaning(control, view.lanes[0].value) if view.lanes else "",
                averaged=averaged,
                silent=bool(view.lanes) and now - view.lanes[0].updated_at > SILENT_AFTER,
                histories=[_readable(control, control_states.history(connection, state.lane)) for state in states],
            )
        )
    return found


def target_of(control: Control) -> float:
    if isinstance(control, PricedReviews):
        return control.rule.capacity
    return control.alpha if isinstance(control, AdaptiveLevel) else control.rule.target


def read_as(control: Control, value: float) -> float:
    """A value as people read it: limits are limits on confidence."""
    return 1 - value if isinstance(control, TrackedRisk) else value


def words_of(control: Control) -> tuple[str, str, str]:
    """What is controlled; what the value is called; what the average is of."""
    target = _exact(target_of(control))
    if isinstance(control, PricedReviews):
        return (
            f"At most {target} of the predictions go to people, over the long run. Each review makes the next one"
            " dearer, and each prediction without one makes it cheaper again. What the artifact holds is never"
            " answered: where people have no time for it, it is abstained from.",
            "Price of reviewers' time",
            "predictions sent to review",
        )
    if isinstance(control, TrackedRate):
        return (
            f"{target} of the predictions fall below a limit on confidence and go to people, over the long run. What"
            " the artifact holds above the limit comes on top.",
            "Limit on confidence",
            "predictions below the limit",
        )
    if isinstance(control, TrackedRisk):
        return (
            f"At most {target} of all requests are answered and wrong, over the long run. Errors that people find among"
            " spot-checked answers raise a limit on confidence; what is held lowers it. What the artifact holds is"
            " never answered.",
            "Limit on confidence",
            "requests answered and wrong, estimated from drawn labels",
        )
    return (
        f"{target} of the prediction sets miss the right label, over the long run. Each miss that people find makes the"
        " sets larger, each hit makes them a little smaller.",
        "Error level of the sets",
        "sets that miss, estimated from drawn labels",
    )


def meaning(control: Control, value: float) -> str:
    """What a value, as people read it, does at this moment."""
    if isinstance(control, PricedReviews):
        limit = 1 - (control.rule.review_cost + value) / control.rule.error_cost
        if limit <= 0:
            return "nobody is asked about anything"
        return f"people are asked about confidences below {limit:.3g}"
    if isinstance(control, AdaptiveLevel):
        if value <= 0:
            return "sets hold every label"
        return "sets are empty" if value >= 1 else f"sets as if {_exact(value)} of them were to miss"
    if value <= 0:
        return "everything is answered that the artifact answers"
    if value <= 1:
        return f"below {value:.3g} nothing is answered"
    if isinstance(control, TrackedRisk):
        requests = (value - 1) / (control.rule.step * control.rule.target)
        return f"nothing is answered, for about {requests:,.0f} requests"
    return "nothing is answered"


def _lane(control: Control, state: ControlState, course: ControlledValue) -> LaneView:
    return LaneView(
        value=read_as(control, course.value),
        n=course.n,
        average=_known(course.average),
        artifact=state.artifact,
        began_at=state.began_at,
        updated_at=state.updated_at,
    )


def _readable(control: Control, points: Sequence[Point]) -> list[Point]:
    return [Point(**{**asdict(point), "value": read_as(control, point.value)}) for point in points]


def _known(value: float) -> float | None:
    return value if -inf < value < inf else None


def _exact(share: float) -> str:
    return f"{100 * share:.3g}%" if share else percent(0.0)
