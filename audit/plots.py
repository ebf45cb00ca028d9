"""How our pictures look: colours are of Okabe and Ito's palette, and what is drawn is SVG text."""

import io
import threading

from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
DRAWING = threading.Lock()
"""The style is one for the whole process: two who draw at once would take each other's away."""

STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "demur"}


def as_svg(figure: Figure) -> str:
    """The same bytes for the same picture: no date and no maker is in it."""
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]
