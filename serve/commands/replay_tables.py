"""`demur replay`: what another artifact would have decided, as a table."""

from rich.table import Table

from demur.serve.commands.pair_tables import at_k_table
from demur.serve.fitting.replay import ReplayedTraffic


def tables(replayed: ReplayedTraffic) -> list[Table]:
    """Then and now, side by side; of labels that can hold together also the most probable ones."""
    return [table(replayed), *([at_k_table(*replayed.at_k, "then", "now")] if any(replayed.at_k) else [])]


def table(replayed: ReplayedTraffic) -> Table:
    """Decisions and their risk, then and now."""
    r = replayed.numbers
    shown = Table(title=f"{replayed.artifact} on {r.n:,} records of {replayed.model}")
    shown.add_column("what")
    for column in ("then", "now", "change"):
        shown.add_column(column, justify="right")
    for what, then, now in (
        ("answered", r.then.answered, r.now.answered),
        ("held", r.then.held, r.now.held),
        ("cases for people", r.then.for_people, r.now.for_people),
    ):
        shown.add_row(what, f"{then:,}", f"{now:,}", f"{now - then:+,}")
    shown.add_row("answered then, held now", "", f"{r.answered_to_held:,}", "")
    shown.add_row("held then, answered now", "", f"{r.held_to_answered:,}", "")
    shown.add_row("risk of the answered", _risk(r.then.risk), _risk(r.now.risk), _risk(r.now.risk - r.then.risk, "+"))
    shown.add_row("  n, answered with an outcome", f"{r.then.n_labelled:,}", f"{r.now.n_labelled:,}", "")
    for one in replayed.promised:
        shown.add_row(f"promised: at most {one.statement}", "", _risk(one.value), "")
        shown.add_row("  n", "", f"{one.n:,}", "")
    return shown


def left_out(replayed: ReplayedTraffic) -> str:
    """What is not in the table, and what its risks mean."""
    n, labelled = replayed.numbers.n, replayed.numbers.n_labelled
    other = f", and {replayed.rewritten:,} one about a text that is not written again" if replayed.rewritten else ""
    return (
        f"Left out: {replayed.forgotten:,} records whose input was forgotten and {replayed.unusable:,} whose input the"
        f" model does not take. {labelled:,} of the {n:,} records have an outcome{other}; the risks are those of"
        f" {'the first' if other else 'these'} alone."
    )


def _risk(value: float, sign: str = "") -> str:
    return "–" if value != value else f"{value:{sign}.4f}"
