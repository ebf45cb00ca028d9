"""How a model is watched while it serves: `monitor` in the configuration."""

from typing import Any, Literal

from pydantic import Field

from demur.audit.state.alarms import OnAlarm
from demur.serve.config.settings import Section

LEAST_RISK = 1e-6


class MonitorConfig(Section):
    """Watches, for each artifact of a model, whether its promise is kept and whether the traffic is what it was."""

    max_risk: float | None = Field(default=None, ge=LEAST_RISK, lt=1)
    """Share of the answers that may be wrong; by default what the artifact promises."""

    delta: float = Field(default=0.05, gt=0, lt=1)
    """How probable it is that the alarm about the risk of an artifact is ever false."""

    wait_hours: float | None = Field(default=72, ge=0, le=24 * 365)
    """How long a review is waited for: labels are taken in the order of the answers, so that errors cannot be seen
    sooner than right answers. None: in the order in which reviewers speak."""

    on_alarm: OnAlarm = OnAlarm.NOTIFY
    """What that alarm does: `notify` tells, `tighten` also holds the less sure answers, `hold_all` all of them."""

    tighten_to: float = Field(default=0.5, gt=0, lt=1)
    """Of what was lately answered, the share that `tighten` still lets through: the surest."""

    drift_delta: float = Field(default=0.01, gt=0, lt=1)
    """How probable it is that any of the alarms without labels of an artifact is ever false."""

    reference: int = Field(default=1000, ge=100, le=10_000)
    """So many records, the first that an artifact decides, are what later ones are compared with."""

    window: int = Field(default=1000, ge=100, le=10_000)
    """So many of the latest records are compared with these."""

    @property
    def words(self) -> str:
        """What is watched and done, for people."""
        risk = (
            "what its artifact promises" if self.max_risk is None else f"at most {self.max_risk:g} of the answers wrong"
        )
        does = {
            OnAlarm.NOTIFY: "tells",
            OnAlarm.TIGHTEN: f"holds all but the surest {self.tighten_to:g} of what was answered",
            OnAlarm.HOLD_ALL: "holds all answers",
        }
        return f"watched for {risk}; an alarm about that {does[self.on_alarm]}"


Monitored = MonitorConfig | Literal[False] | None


def read_monitor(value: Any) -> Monitored:
    """`false` is no monitor; nothing at all: one where spot checks are drawn."""
    if isinstance(value, dict | MonitorConfig):
        return MonitorConfig.model_validate(value)
    if value is None or value is False:
        return value
    raise ValueError("write the settings of a monitor, such as `{max_risk: 0.02}`, or `false` for none")
