"""Pictures inside a page, as SVG whose words are text: they grow with the page, and are read aloud."""

import re
import warnings
from collections.abc import Callable
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

from audit.plots import DRAWING, GREY, STYLE, as_svg

WIDTH = 4.2
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
}
"""Words are text without a colour, and nothing lies behind them: the page says how both look, by day and by night."""


def inline_svg(name: str, words: str, height: float, draw: Callable[[Figure], None], *, width: float = WIDTH) -> str:
    """The picture, in inches, with a title for those who do not see it. `name` is unique on its page."""
    style = {**STYLE, **INLINE, "svg.hashsalt": name}
    with DRAWING, mpl.rc_context(style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's own font draws it
        figure = Figure(figsize=(width, height), layout="constrained")
        draw(figure)
        svg = as_svg(figure)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in each picture, and an id may occur once on a page
    svg = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "system-ui, sans-serif", svg)
    title = f'<title id="{name}-title">{escape(words)}</title>'
    return svg.replace("<svg ", f'<svg role="img" aria-labelledby="{name}-title" ', 1).replace(">", f">{title}", 1)
