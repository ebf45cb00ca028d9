"""How far many inputs have come: a bar in a terminal, or a function that is told."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = bool | Callable[[int, int | None], object]
"""True: a bar, where there is a terminal. A function is called with how many are done, and of how many, if that is
known."""

Advance = Callable[[int], None]
"""Takes how many more are done."""


@contextmanager
def shown_progress(progress: Progress, total: int | None, what: str) -> Iterator[Advance]:
    """Show how far things are, for as long as the block lasts."""
    if callable(progress):
        done = 0

        def tell(more: int) -> None:
            nonlocal done
            done += more
            progress(done, total)

        yield tell
    elif progress and sys.stderr.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        name = TextColumn("{task.description}", markup=False)
        with Bars(name, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), console=Console(stderr=True)) as bar:
            task = bar.add_task(what, total=total)
            yield lambda more: bar.advance(task, more)
    else:
        yield lambda _more: None
