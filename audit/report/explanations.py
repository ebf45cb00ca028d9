"""Words of a report that are explained where they first stand on a page, and only there."""

from markupsafe import Markup, escape

from demur.audit.report.glossary import metric
from demur.audit.visible import visible


class Explanations:
    """What one page has explained so far."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def word(self, text: str, meaning: str) -> Markup:
        """Return a word, with its meaning in brackets where it stands for the first time."""
        shown = escape(visible(text))
        if self._first(text):
            return Markup('<dfn>{}</dfn> <span class="means">({})</span>').format(shown, visible(meaning))
        return shown

    def named(self, name: str, k: int | None = None) -> Markup:
        """Return a metric by its short name, with the full one below where it stands for the first time. `k`: it is one
        of the k most probable labels."""
        words = metric(name)
        short, long = visible(words.short if k is None else f"{words.short}@{k}"), visible(words.long)
        if not long or long == words.short:
            return escape(short)
        if self._first(words.short):
            return Markup('<dfn>{}</dfn><span class="of">{}</span>').format(short, long)
        return Markup('<abbr title="{}">{}</abbr>').format(long, short)

    def _first(self, text: str) -> bool:
        new = text not in self._seen
        self._seen.add(text)
        return new
