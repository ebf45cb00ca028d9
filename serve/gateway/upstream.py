"""What a caller is told where a model could not be asked: an error that says whether waiting helps."""

from typing import ClassVar

from demur.uncertainty.generation import Outage

GUESS_SECONDS = 5.0
"""Until the next try, where nobody named a time."""


class UpstreamProblem(RuntimeError):
    """A model could not be asked, and `on_failure` says that its callers are told. Nothing was decided."""

    status: ClassVar[int]
    """Of HTTP."""

    passed_to: str | None = None
    """The model that is to be asked in its place."""


class UpstreamUnavailable(UpstreamProblem):
    """The model's endpoint is away for the moment. Try again after the time that `Retry-After` names."""

    status = 503
    seconds = GUESS_SECONDS
    is_named = False
    """Whether the endpoint has named the seconds."""


class UpstreamFailed(UpstreamProblem):
    """The model's endpoint answers nobody until an operator of this service mends something: the key, the name of the
    model, the address."""

    status = 502


def problem_of(model: str, outage: Outage, *, passed_to: str | None) -> UpstreamProblem:
    """The error for a caller. It says what happened, and not where the endpoint is: the record of it does."""
    problem: UpstreamProblem
    what = f"model {model!r} could not be asked: it {outage.what}, and nothing was decided"
    if outage.passes:
        away = problem = UpstreamUnavailable(f"{what}; try again a little later")
        if outage.retry_after is not None:
            away.seconds, away.is_named = outage.retry_after, True
    else:
        problem = UpstreamFailed(f"{what}; whoever runs this service has to mend that, and its log says what")
    problem.passed_to = passed_to
    return problem
