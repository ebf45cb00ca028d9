"""What a refused fit could have promised, shown before its error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.table import Table

from demur.calibration_store.shortfall import PromiseOutOfReach
from demur.library.fit_report import reach_table


@contextmanager
def reach_shown(show: Callable[[Table], None]) -> Iterator[None]:
    """Show what the labels could carry, if a fit in this context is refused for its promise."""
    try:
        yield
    except PromiseOutOfReach as error:
        if error.reach is not None:
            show(reach_table(error.reach))
        raise
