"""How our pictures look: colours of Okabe and Ito's palette, and SVG that lies inside a page, its words text that grows
with the page and is read aloud."""

import io
import re
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from typing import Any

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.backends.backend_agg import FigureCanvasAgg
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


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A picture that can be drawn into a page, or into a file of its own."""

    name: str
    """Unique on a page: ids are made of it."""

    title: str
    height: float
    draw: Callable[[Figure], None]
    words: str = ""
    """What is to be seen, for those who hear it."""

    width: float = WIDTH

    def inline(self) -> str:
        """Return `<svg>` for a page, with a title, with words that say what is to be seen, and with values that show
        where a pointer rests."""
        svg = self._drawn({})
        svg = re.sub(r'<g id="[^"]*"', "<g", with_tips(svg))  # the same in each picture; an id may occur once on a page
        svg = re.sub(r'style="[^"]*"', _coloured, svg)
        svg = re.sub(r' (width|height)="[\d.]+pt"', "", svg, count=2)
        head, ids = f'<title id="{self.name}-title">{escape(self.title)}</title>', f"{self.name}-title"
        if self.words:
            head, ids = (
                f'{head}<desc id="{self.name}-words">{escape(self.words)}</desc>',
                f"{ids} {self.name}-words",
            )
        svg = svg.replace("<svg ", f'<svg role="img" aria-labelledby="{ids}" ', 1).replace(">", f">{head}", 1)
        return str(visible(svg))

    def svg(self) -> bytes:
        """Return a file for other programs: on white, with words as text."""
        svg = re.sub(r'<g id="[^"]*"', "<g", with_tips(self._drawn(ON_WHITE)))
        svg = svg.replace(">", f"><title>{escape(self.title)}</title><desc>{escape(self.words)}</desc>", 1)
        return f'<?xml version="1.0" encoding="utf-8"?>\n{visible(svg)}'.encode()

    def png(self) -> bytes:
        """Return a file for slides and letters: on white, with enough points to print."""
        buffer = io.BytesIO()
        with self._style(ON_WHITE):
            figure = self._figure()
            FigureCanvasAgg(figure).print_png(buffer, metadata={"Software": None})
        return buffer.getvalue()

    def _drawn(self, more: Mapping[str, Any]) -> str:
        with self._style(more):
            svg = as_svg(self._figure())
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
        svg = re.sub(r"<!--.*?-->\s*", "", svg, flags=re.DOTALL)
        return re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "system-ui, sans-serif", svg)

    def _figure(self) -> Figure:
        figure = Figure(figsize=(self.width, self.height), dpi=PRINTED, layout="constrained")
        self.draw(figure)
        return figure

    @contextmanager
    def _style(self, more: Mapping[str, Any]) -> Iterator[None]:
        style = {**STYLE, **INLINE, "svg.hashsalt": self.name, **more}
        with DRAWING, mpl.rc_context(style), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Glyph .* missing")  # the reader's own font draws it
            yield


ON_WHITE = {"figure.facecolor": "white", "axes.facecolor": "white"}
PRINTED = 200
"""Points of a PNG for each inch."""

TIPS, BETWEEN = "tips:", "\N{INVISIBLE SEPARATOR}"


def add_tips(points: Artist, texts: Sequence[str]) -> None:
    """Let the points of a line, all of which are drawn, each show a text where a pointer rests on it."""
    points.set_gid(TIPS + BETWEEN.join(text.replace(BETWEEN, " ") for text in texts))


def with_tips(svg: str) -> str:
    """Return a picture in which each marked point has its text. Points of which some are not drawn have none."""

    def told(found: re.Match[str]) -> str:
        texts = found["texts"].split(BETWEEN)
        marks = re.findall(r"<use [^>]*/>", found["drawn"])
        if len(marks) != len(texts):
            return found.group()
        each = iter(texts)
        return "<g>" + re.sub(
            r"<use [^>]*/>", lambda mark: f"<g><title>{next(each)}</title>{mark.group()}</g>", found["drawn"]
        )

    return re.sub(rf'<g id="{TIPS}(?P<texts>[^"]*)">(?P<drawn>.*?)(?=<g id=|\Z)', told, svg, flags=re.DOTALL)


def inline_svg(
    name: str, title: str, height: float, draw: Callable[[Figure], None], *, words: str = "", width: float = WIDTH
) -> str:
    """Return `<svg>` of this size in inches, with a title, and `words` that say what is to be seen. No two names on a
    page may be the same: ids are made of them."""
    return Drawing(name=name, title=title, height=height, draw=draw, words=words, width=width).inline()


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
