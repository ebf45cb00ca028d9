"""Reports as a service would have stored them, a week of them and more."""

from datetime import UTC, datetime, timedelta
from math import nan

from demur.audit.state import reports
from demur.audit.state.reports import Figure, LabelCount, NewReport, ReportExtent, Summary

MONDAY = datetime(2026, 11, 16, tzinfo=UTC)
DAY = timedelta(days=1)

PAGE = """<!doctype html>
<html lang="en"><head><title>Audit of digits</title><style>p { color: #222 }</style></head>
<body class="report"><main><h1>The whole report</h1><p>1.2% of the answers were wrong.</p></main></body></html>"""


def summary(verdict="kept", risk=0.012, **changes):
    values = {
        "verdict": verdict,
        "why": f"{risk:.1%} of the answers is wrong",
        "max_risk": 0.02,
        "figures": [
            Figure(name="selective_risk", words="wrong among the answered", value=risk, low=risk / 2, high=risk * 1.5),
            Figure(name="coverage", words="answered", value=0.851, low=nan, high=nan),
            Figure(name="ece", words="calibration error", value=0.031, low=0.02, high=0.05, share=False),
        ],
        "labels": [
            LabelCount(name="answered", records=8510, labelled=171),
            LabelCount(name="held", records=1490, labelled=1432),
        ],
        "artifacts": {"digits-5f2c9a1b3d4e6f70": 10_000},
    }
    return Summary(**{**values, **changes})


def new_report(until=MONDAY, *, of=None, model="digits", **changes):
    values = {
        "extent": ReportExtent(model=model, since=until - 7 * DAY, until=until, as_of=until + DAY / 24),
        "planned": True,
        "made_by": "schedule",
        "command": f"demur audit --model {model}",
        "version": "0.1.0",
        "summary": of or summary(),
        "document": '{"model": "digits", "value":  1.50, "none": null}',
        "html": PAGE,
    }
    return NewReport(**{**values, **changes})


def keep(database, *new):
    """Store them, and return their ids."""
    with database.transaction() as connection:
        return [reports.store(connection, one) for one in new]


def a_fortnight(database, model="digits"):
    """Fourteen reports, a day apart; the answers get worse towards the end. Their ids, oldest first."""
    risks = [0.012, 0.011, 0.013, 0.012, 0.010, 0.011, 0.012, 0.014, 0.013, 0.015, 0.017, 0.021, 0.03, 0.05]
    verdicts = ["kept"] * 10 + ["not enough evidence"] * 3 + ["broken"]
    return keep(
        database,
        *(
            new_report(MONDAY + at * DAY, of=summary(verdict, risk), model=model)
            for at, (risk, verdict) in enumerate(zip(risks, verdicts, strict=True))
        ),
    )
