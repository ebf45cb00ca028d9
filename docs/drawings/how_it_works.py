"""Draw how demur works, for the README: `python docs/drawings/how_it_works.py` writes a light and a dark SVG."""

from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

IMAGES = Path(__file__).parents[1] / "images"

WIDTH, HEIGHT = 960, 330
BOX = 176, 74


@dataclass(frozen=True)
class Look:
    """Colours of one picture."""

    ground: str
    box: str
    line: str
    text: str
    faint: str
    accent: str


LOOKS = {
    "light": Look("#ffffff", "#f3f5f7", "#8a949e", "#1c2126", "#5b6670", "#0b6bcb"),
    "dark": Look("#0d1117", "#1c2330", "#6b7683", "#e6e9ec", "#a3adb8", "#6cb6ff"),
}

BOXES = {
    "caller": (14, 60, "your program", "HTTP or gRPC"),
    "gateway": (266, 60, "gateway", "reads, gathers batches"),
    "model": (518, 60, "model host", "model, scores, calibrator"),
    "policy": (770, 60, "policy", "answer, or hold"),
    "log": (518, 230, "log", "one record each, on disk"),
    "people": (770, 230, "review queue", "people answer"),
    "audit": (266, 230, "audit", "was the promise kept?"),
    "fit": (14, 230, "fit", "calibrator and policy"),
}
"""Left and top edge of each box, its name, and what it does."""

ARROWS = (
    ("caller", "gateway", "input"),
    ("gateway", "model", "batch"),
    ("model", "policy", "confidence"),
    ("policy", "people", "held"),
    ("people", "log", "truth"),
    ("log", "audit", "records"),
    ("audit", "fit", "labels"),
)


def drawing(look: Look) -> str:
    """Return the picture as SVG."""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-family="system-ui,'
        ' sans-serif" aria-label="How demur works">',
        f'<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        f'<path d="M0 0 L8 4 L0 8 z" fill="{look.line}"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="{look.ground}"/>',
    ]
    parts += [_arrow(start, end, words, look) for start, end, words in ARROWS]
    parts.append(_path("M 858 60 L 858 26 L 102 26 L 102 57", look))
    parts.append(_words(480, 20, "answered: prediction, calibrated confidence, reason, id", look.faint, 13))
    parts.append(_path("M 102 230 L 102 182 L 606 182 L 606 137", look))
    parts.append(_words(354, 175, "new artifact: shadow, canary, promote", look.faint, 13))
    parts += [_box(*box, look) for box in BOXES.values()]
    return "\n".join([*parts, "</svg>", ""])


def _box(left: int, top: int, name: str, what: str, look: Look) -> str:
    width, height = BOX
    middle = left + width // 2
    return (
        f'<rect x="{left}" y="{top}" width="{width}" height="{height}" rx="9" fill="{look.box}"'
        f' stroke="{look.accent}"/>'
        + _words(middle, top + 32, name, look.text, 16, "600")
        + _words(middle, top + 54, what, look.faint, 12)
    )


def _arrow(start: str, end: str, words: str, look: Look) -> str:
    (x0, y0, *_), (x1, y1, *_) = BOXES[start], BOXES[end]
    width, height = BOX
    if y0 != y1:
        x, top = x0 + width // 2, y0 + height
        return _path(f"M {x} {top} L {x} {y1 - 3}", look) + _words(x + 22, (top + y1) // 2, words, look.faint, 13)
    y = y0 + height // 2
    ends = (x0 + width, x1 - 3) if x0 < x1 else (x0, x1 + width + 3)
    return _path(f"M {ends[0]} {y} L {ends[1]} {y}", look) + _words(sum(ends) // 2, y - 8, words, look.faint, 13)


def _path(shape: str, look: Look) -> str:
    return f'<path d="{shape}" fill="none" stroke="{look.line}" stroke-width="1.6" marker-end="url(#tip)"/>'


def _words(x: int, y: int, text: str, colour: str, size: int, weight: str = "400") -> str:
    return (
        f'<text x="{x}" y="{y}" text-anchor="middle" font-size="{size}" font-weight="{weight}" fill="{colour}">'
        f"{escape(text)}</text>"
    )


if __name__ == "__main__":
    for name, look in LOOKS.items():
        (IMAGES / f"how-it-works-{name}.svg").write_text(drawing(look), encoding="utf-8")
