"""A figure that notebooks show by themselves, and that no global state of matplotlib knows of."""

import io
from collections.abc import Callable

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from demur.audit.drawing import DRAWING, STYLE

SIZE = (5.0, 3.6)
"""Inches."""

LOOKS = {**STYLE, "legend.frameon": False, "text.parse_math": False}
"""Names of classes and scores are shown as they are written, also with dollar signs in them."""


class PlotFigure(Figure):
    """A figure that was never shown. The last line of a notebook cell shows it; `savefig` stores it."""

    def png(self) -> bytes:
        """Return the picture as a PNG file."""
        buffer = io.BytesIO()
        FigureCanvasAgg(self).print_png(buffer)
        return buffer.getvalue()

    def _repr_png_(self) -> bytes:
        return self.png()


def on_axes(draw: Callable[[Axes], None], ax: Axes | None, *, size: tuple[float, float] = SIZE) -> Figure:
    """Draw on the given axes, or on new ones; return the figure."""
    if ax is not None:
        draw(ax)
        return ax.get_figure(root=True) or Figure()
    return new_picture(lambda figure: draw(figure.subplots()), size=size)


def new_picture(draw: Callable[[Figure], None], *, size: tuple[float, float] = SIZE) -> PlotFigure:
    """Return a new figure, drawn on."""
    with DRAWING, mpl.rc_context(LOOKS):
        picture = PlotFigure(figsize=size, layout="constrained")
        draw(picture)
    return picture


def legend(ax: Axes) -> None:
    """Put a legend where there is room, with names as they are written."""
    for text in ax.legend().get_texts():
        text.set_parse_math(False)
