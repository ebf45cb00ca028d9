"""How our pictures look: colours of Okabe and Ito's palette, and SVG that lies inside a page, its words text that grows
with the page and is read aloud."""

import io
import re
import threading
import warnings
from collections.abc import Callable
from html import escape

import matplotlib as mpl
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure

from demur.audit.visible import visible

BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#767676"
COLOURS = {BLUE: "blue", ORANGE: "orange", GREEN: "green", GREY: "grey"}
"""What a page calls them: it may make each lighter by night. Black words get no colour, and take that of the page."""

DRAWING = threading.Lock()
"""The style is one for the whole process: two who draw at once would take each other's away."""

STYLE = {"font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "svg.hashsalt": "demur"}

WIDTH = 4.2
"""Inches: shown in a column of a page, or across a telephone, words are as large as others."""

INLINE = {
    "font.size": 10,
    "svg.fonttype": "none",
    "text.parse_math": False,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": GREY,
    "xtick.color": GREY,
    "ytick.color": GREY,
    "xtick.labelcolor": "black",
    "ytick.labelcolor": "black",
    "legend.frameon": False,
    "legend.fontsize": 9,
}
"""Nothing lies behind what is drawn: the page says how it looks, by day and by night."""


def inline_svg(
    name: str, title: str, height: float, draw: Callable[[Figure], None], *, words: str = "", width: float = WIDTH
) -> str:
    """Return `<svg>` of this size in inches, with a title, and `words` that say what is to be seen. No two names on a
    page may be the same: ids are made of them."""
    with DRAWING, mpl.rc_context({**STYLE, **INLINE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's own font draws it
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        svg = as_svg(figure)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in each picture, and an id may occur once on a page
    svg = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "system-ui, sans-serif", svg)
    svg = re.sub(r'style="[^"]*"', _coloured, svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    head, ids = f'<title id="{name}-title">{escape(title)}</title>', f"{name}-title"
    if words:
        head, ids = f'{head}<desc id="{name}-words">{escape(words)}</desc>', f"{ids} {name}-words"
    svg = svg.replace("<svg ", f'<svg role="img" aria-labelledby="{ids}" ', 1).replace(">", f">{head}", 1)
    return str(visible(svg))


def as_svg(figure: Figure) -> str:
    """Write a picture as SVG. Equal pictures give equal bytes: there is no date and no maker in them."""
    buffer = io.StringIO()
    FigureCanvasSVG(figure).print_svg(buffer, metadata={"Date": None, "Creator": None})
    return buffer.getvalue()[buffer.getvalue().index("<svg") :]


def _coloured(style: re.Match[str]) -> str:
    text = style.group()
    for colour, name in COLOURS.items():
        text = text.replace(colour.lower(), f"var(--{name}, {colour})")
    return text
