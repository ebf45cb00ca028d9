"""Tables and sentences as HTML that a notebook shows."""

from base64 import b64encode
from collections.abc import Iterable, Sequence
from html import escape

from demur.audit.visible import visible
from demur.library.picture import PlotFigure


def table(caption: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table with a caption. Whatever stands in it is text, and no markup."""
    head = "".join(f"<th>{_text(column)}</th>" for column in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{_text(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def paragraphs(sentences: Iterable[str]) -> str:
    """Each sentence as a paragraph."""
    return "".join(f"<p>{_text(sentence)}</p>" for sentence in sentences)


def image(picture: PlotFigure, words: str) -> str:
    """A picture, with words for whoever cannot see it."""
    data = b64encode(picture.png()).decode()
    return f'<img alt="{_text(words)}" src="data:image/png;base64,{data}">'


def _text(value: object) -> str:
    return escape(str(visible(str(value)))).replace("\n", "<br>")
