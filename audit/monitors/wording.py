"""Monitors and alarms in plain words."""

from datetime import datetime
from math import exp, isnan

from demur.audit.metrics.resampling import Interval
from demur.audit.monitors.expected import ExpectedWrong
from demur.audit.monitors.risk import RiskState
from demur.audit.monitors.traffic import TrafficState
from demur.audit.reviewer_error import ReviewerError, corrected_interval

FEW = 30
"""With fewer labels nothing is said of the share."""


def risk_words(state: RiskState) -> str:
    """What an alarm about the risk says."""
    target = state.settings.target
    assert target is not None
    counted = (
        f"of {state.n_labelled:,} checked ones {_counted(state.errors)} were{_late(state)}, weighted"
        f" {percent(state.estimate)}, and at most {percent(target)} may be"
    )
    chance = f"such an alarm comes by chance with probability {percent(state.settings.delta)} at most"
    if state.corrected_bets is None:
        return f"more answers are wrong than was promised: {counted}; {chance}"
    return (
        f"more answers are wrong than was promised, corrected for the errors of reviewers: by what they say {counted},"
        f" for which they would call {percent(state.corrected_bets.target)} wrong; {chance}, if they err as often as in"
        " their second looks"
    )


def confidence_words(state: TrafficState) -> str:
    """What an alarm about the confidence says."""
    return (
        f"the traffic has changed: confidences no longer come as they did in the first {state.settings.reference:,}"
        " records; nothing is known yet of how many answers are wrong, so have more of them checked"
    )


def held_words(state: TrafficState) -> str:
    """What an alarm about the share that is held says."""
    low = state.too_little.target if state.too_little else 0.0
    high = state.too_much.target if state.too_much else 1.0
    share = percent(state.n_held / state.n_compared)
    return (
        f"the traffic has changed: {share} of {state.n_compared:,} predictions were not answered, and by the reference"
        f" it would be {percent(low)} to {percent(high)}; nothing is known yet of how many answers are wrong, so have"
        " more of them checked"
    )


def risk_sentence(state: RiskState, error: ReviewerError | None = None) -> str:
    """How an artifact stands with its promise, as a sentence for its page. Where `error`, that of the reviewers, is
    known to the monitor, the promise is judged without it, and what they say stands beside it."""
    target, n = state.settings.target, state.n_labelled
    known = (
        f"of {n:,} checked answers {_counted(state.errors)} {'was' if state.errors == 1 else 'were'} wrong"
        f" (weighted {percent(state.estimate)}){_late(state)}"
    )
    if not n:
        checked = "No answer has been checked yet, so nothing is known of the risk"
        return f"{checked}." if target is None else f"{checked}; at most {percent(target)} may be wrong."
    if target is None:
        return f"Nothing was promised. {known[:1].upper()}{known[1:]}; {_interval(state)}."
    assert state.deciding is not None
    shown, interval, by = _behind(state, error)
    if state.alarmed:
        return f"The promise of at most {percent(target)} is broken{by}: {known}; {interval}.{_observed(state)}"
    if n < FEW:
        return f"Too early to tell: {known}; at most {percent(target)} may be."
    if shown is not None and shown.upper <= target:  # where the risk has moved, nothing is said of what it is now
        return f"The promise of at most {percent(target)} is kept{by}: {known}; {interval}.{_observed(state)}"
    return (
        f"No sign that the promise of at most {percent(target)} is broken{by}: {known}; {interval}. The evidence"
        f" against it is {exp(min(state.deciding.log_wealth, 50)):.3g}; an alarm takes {1 / state.settings.delta:g}."
        f"{_observed(state)}"
    )


def _behind(state: RiskState, error: ReviewerError | None) -> tuple[Interval | None, str, str]:
    """The interval that the verdict goes by, None where the risk has moved; the same in words; and what it is by."""
    known = None if error is None or state.corrected_bets is None else corrected_risk(state, error)
    if known is not None:
        words = f"a steady risk lies in {percent(known.lower)} to {percent(known.upper)}"
        return known, words, ", corrected for the errors of reviewers"
    by = ", corrected for the errors of reviewers" if state.corrected_bets else ""
    seen = Interval(lower=state.lower, upper=state.upper) if state.lower <= state.upper else None
    return (None if by else seen), _interval(state), by


def _observed(state: RiskState) -> str:
    """What the verdict would be by what reviewers say; empty where that is the verdict."""
    target = state.settings.target
    if state.corrected_bets is None or target is None:
        return ""
    word = "no sign that it is broken"
    if state.observed_alarmed:
        word = "broken"
    elif state.n_labelled >= FEW and state.lower <= state.upper <= target:
        word = "kept"
    return f" What reviewers say, not corrected, would be: {word}; {_interval(state)}."


def reviewers_sentence(state: RiskState, error: ReviewerError | None) -> str:
    """What the risk is without the errors of reviewers; why it is not known; empty without a label."""
    if error is None or not state.n_labelled or state.lower > state.upper:
        return ""
    known = corrected_risk(state, error)
    if known is None:
        return f"{error.words[:1].upper()}{error.words[1:]}."
    said = (
        f"Corrected for the errors of reviewers a steady risk lies in {percent(known.lower)} to {percent(known.upper)}"
    )
    target = state.settings.target
    if target is None:
        word = ""
    elif known.lower > target:
        word = f", above the promised {percent(target)}"
    elif known.upper <= target:
        word = f", within the promised {percent(target)}"
    else:
        word = f", on both sides of the promised {percent(target)}"
    return f"{said}{word}: {error.words}."


def corrected_risk(state: RiskState, error: ReviewerError) -> Interval | None:
    """Return the interval of a steady risk without the errors of reviewers, as far as all labels are theirs."""
    if not state.n_labelled or state.lower > state.upper or not state.whole:
        return None
    return corrected_interval(Interval(lower=state.lower, upper=state.upper), error, state.settings.delta)


def traffic_sentence(state: TrafficState) -> str:
    """Whether the traffic is what it was, as a sentence for its page."""
    if state.jumper is None:
        wanted = f"{state.settings.reference:,} records with which later ones are compared"
        return f"{state.n:,} of the {wanted} have come."
    if state.alarmed:
        what = " and ".join({"confidence": "the confidences", "held": "the share held"}[kind] for kind in state.alarmed)
        return f"The traffic has changed: {what}. That is no finding about errors; have more answers checked."
    if not state.n_compared:
        return f"The reference of {state.settings.reference:,} records is complete; nothing has come after it."
    share = percent(state.n_held / state.n_compared)
    return f"No sign of a change in {state.n_compared:,} records since the reference: {share} were not answered."


def expected_sentence(expected: ExpectedWrong | None) -> str:
    """How many answers are expected to be wrong, with what that assumes; empty without an answer."""
    if expected is None:
        return ""
    return (
        f"Without labels: of the latest {expected.n:,} answers {percent(expected.estimate)} would be wrong"
        f" (± {percent(1.96 * expected.standard_error)} by chance), if the confidence is still calibrated. That is an"
        " estimate and no finding; nothing is judged by it."
    )


def unlike_sentence(expected: ExpectedWrong | None) -> str:
    """Why the estimate without labels is not to be relied on; empty where nothing speaks against it."""
    if expected is None or not expected.unlike:
        return ""
    return "The latest records are not like the reference, so do not rely on it: have more answers checked."


def percent(share: float) -> str:
    """With as many digits as say something; a dash for what is not known."""
    return "–" if isnan(share) else f"{100 * share:.3g}%"


def _interval(state: RiskState) -> str:
    low, high = percent(state.lower), percent(state.upper)
    if state.lower <= state.upper:
        return f"a steady risk lies in {low} to {high}"
    return f"the risk has moved: at one time it was {low} or more, at another {high} or less"


def _late(state: RiskState) -> str:
    """How many answers are taken to be right because their review did not come in time."""
    return f", {state.late:,} without a review in time counted as right" if state.late else ""


def waiting_sentence(state: RiskState) -> str:
    """For which review the monitor waits; empty where for none."""
    if state.waiting_since is None:
        return ""
    since = f"{datetime.fromisoformat(state.waiting_since):%Y-%m-%d %H:%M:%S}"
    return f"Labels are taken in the order of the answers. The next one waits for a review of an answer of {since} UTC."


def _counted(errors: float) -> str:
    """How many were wrong, where label sets are also wrong in part."""
    return f"{errors:,.0f}" if errors == int(errors) else f"{errors:,.1f}"
