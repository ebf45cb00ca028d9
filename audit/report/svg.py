"""A picture as SVG that lies inside a page: its words are text, and the page says how its colours look."""

import re
import warnings
from collections.abc import Callable
from html import escape

import matplotlib as mpl
from matplotlib.figure import Figure

from audit.plots import BLUE, DRAWING, GREEN, GREY, ORANGE, STYLE, as_svg

WIDTH = 3.9
"""Inches, of every picture: shown in a column of a page, or across a telephone, its words are as large as others."""

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

COLOURS = {BLUE: "blue", ORANGE: "orange", GREEN: "green", GREY: "grey"}
"""What the page calls them: it makes each lighter by night. Black words get no colour, and take that of the page."""


def inline(name: str, title: str, words: str, height: float, draw: Callable[[Figure], None]) -> str:
    """Return `<svg>` with a title, and words that say what is to be seen. No two names on a page may be the same: ids
    are made of them."""
    with DRAWING, mpl.rc_context({**STYLE, **INLINE, "svg.hashsalt": name}), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's own font draws it
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        draw(figure)
        svg = as_svg(figure)
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in each picture, and an id may occur once on a page
    svg = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "system-ui, sans-serif", svg)
    svg = re.sub(r'style="[^"]*"', _coloured, svg)
    svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
    head = f'<title id="{name}-title">{escape(title)}</title><desc id="{name}-words">{escape(words)}</desc>'
    named = f'<svg role="img" aria-labelledby="{name}-title {name}-words" '
    return svg.replace("<svg ", named, 1).replace(">", f">{head}", 1)


def _coloured(style: re.Match[str]) -> str:
    text = style.group()
    for colour, name in COLOURS.items():
        text = text.replace(colour.lower(), f"var(--{name}, {colour})")
    return text
