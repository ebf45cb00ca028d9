"""When audits are made by themselves: `audit` in the configuration."""

from datetime import timedelta
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from demur.serve.config.settings import Section

HOURS_OF = {"d": 24.0, "h": 1.0, "m": 1 / 60}


def hours_told(value: Any) -> Any:
    """Hours, from a number of them or a text like 7d, 24h or 30m."""
    if not isinstance(value, str):
        return value
    try:
        return float(value[:-1]) * HOURS_OF[value[-1:]]
    except (KeyError, ValueError):
        raise ValueError(f"{value!r} is neither a number nor a length of time like 7d, 24h or 30m") from None


def days_told(value: Any) -> Any:
    """Days, from a number of them or a text like 7d, 24h or 30m."""
    return hours_told(value) / 24 if isinstance(value, str) else value


Hours = Annotated[float, BeforeValidator(hours_told), Field(ge=0.25, le=24 * 366, allow_inf_nan=False)]
Days = Annotated[float, BeforeValidator(days_told), Field(gt=0, le=36_600, allow_inf_nan=False)]


class AuditConfig(Section):
    """Audits that the service makes by itself, of every model."""

    every_hours: Hours | None = 24
    """How often; null for never. Ends of the range lie at whole multiples, counted from a Monday at 00:00 UTC."""

    window_days: Days = 7
    """How much time each of them looks back upon."""

    keep_days: Days = 730
    """How long reports are kept."""

    rows: str | None = None
    """A folder, or any URL that fsspec understands, for the rows behind each stored report, as Parquet. By default none
    are kept: the command that a report names writes them again."""

    max_minutes: float = Field(default=60, gt=0, le=24 * 60)
    """An audit that takes longer is ended, and has failed."""

    replicas: int = Field(default=1, ge=1)
    """Of the process behind the auditors' pages, which makes the audits. Several never make the same one."""

    cpus: float = Field(default=0.1, ge=0)
    """That Ray sets aside for each; one that makes an audit uses a whole core."""

    every_outcome_known: tuple[str, ...] = ()
    """Models of which the outcome of every record comes, whatever was decided about it: each known one then stands for
    itself."""

    @property
    def every(self) -> timedelta | None:
        return None if self.every_hours is None else timedelta(hours=self.every_hours)

    @property
    def window(self) -> timedelta:
        return timedelta(days=self.window_days)

    @property
    def words(self) -> str:
        """In one line."""
        if self.every_hours is None:
            return "audits are made when somebody asks for one"
        return (
            f"every model is audited every {_length(self.every_hours)} for the last"
            f" {_length(self.window_days * 24)}; reports are kept for {_length(self.keep_days * 24)}"
        )


def _length(hours: float) -> str:
    if hours >= 48 and hours % 24 == 0:
        return f"{hours / 24:g} days"
    return "hour" if hours == 1 else f"{hours:g} hours" if hours > 1 else f"{hours * 60:g} minutes"
