"""Replies in Markdown, as pages show them: nothing in them loads anything, runs anything, or looks like ours."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from markupsafe import Markup

from demur.audit.visible import visible

LONGEST = 20_000
"""Characters of a text that is rendered; a longer one is shown as it was written. None of this length takes longer than
about a second."""

MOST_CELLS = 10_000
"""Lines times the most bars of a line: short rows of a table are filled up to its width."""

SCHEMES = ("http", "https", "mailto")
"""Kinds of addresses that become links. Any other link is shown as the text that was written."""

PLAIN = frozenset({"paragraph_open", "paragraph_close", "inline", "text", "softbreak", "hardbreak"})
"""What a text is made of that looks the same without being rendered."""


def rendered(text: str) -> Markup | None:
    """Return a reply as HTML; None where it is no Markdown, or too long.

    HTML in it is shown as text. Pictures are named and not loaded. Links open elsewhere, tell the other side nothing of
    this page, and show where they lead. Headings are paragraphs, so that they are none of the page's own.
    """
    lines = text.splitlines()
    if len(text) > LONGEST or len(lines) * max((line.count("|") for line in lines), default=0) > MOST_CELLS:
        return None
    tokens = PARSER.parse(visible(text))
    if all(token.type in PLAIN for token in _all(tokens)):
        return None
    return Markup(PARSER.renderer.render(tokens, PARSER.options, {}))  # noqa: S704 - made of what is escaped below


def _all(tokens: Sequence[Token]) -> list[Token]:
    return [one for token in tokens for one in (token, *_all(token.children or ()))]


class Renderer(RendererHTML):
    """Writes every text with its hidden characters spelled out: entities of HTML can hold some."""

    def text(self, tokens: Sequence[Token], at: int, _: OptionsDict, __: EnvType) -> str:
        return _escaped(tokens[at].content)

    def code_inline(self, tokens: Sequence[Token], at: int, _: OptionsDict, __: EnvType) -> str:
        return f"<code>{_escaped(tokens[at].content)}</code>"

    def code_block(self, tokens: Sequence[Token], at: int, _: OptionsDict, __: EnvType) -> str:
        return f"<pre><code>{_escaped(tokens[at].content)}</code></pre>\n"

    def fence(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
        return self.code_block(tokens, at, options, env)

    def image(self, tokens: Sequence[Token], at: int, options: OptionsDict, env: EnvType) -> str:
        name = self.renderInlineAsText(tokens[at].children or [], options, env)
        return f'<span class="soft">[a picture: {_escaped(name)}]</span>'

    def link_open(self, tokens: Sequence[Token], at: int, _: OptionsDict, env: EnvType) -> str:
        href = str(tokens[at].attrs.get("href", ""))
        env.setdefault("links", []).append(href)
        shown = _escaped(href) if tokens[at + 1].type == "link_close" else ""
        return f'<a href="{escapeHtml(href)}" rel="noopener noreferrer nofollow" target="_blank">{shown}'

    def link_close(self, _: Sequence[Token], __: int, ___: OptionsDict, env: EnvType) -> str:
        where = _where(env["links"].pop())
        return f'</a> <span class="soft">({_escaped(where)})</span>' if where else "</a>"

    @staticmethod
    def renderAttrs(token: Token) -> str:  # noqa: N802 - the name of the library
        """Only where a list begins, and what is a heading: a style would be none of ours."""
        kept = {name: value for name, value in token.attrs.items() if name in ("start", "class")}
        return "".join(f' {name}="{escapeHtml(str(value))}"' for name, value in kept.items())


def _escaped(text: str) -> str:
    return escapeHtml(str(visible(text)))


def _where(href: str) -> str:
    try:
        parts = urlsplit(href)
    except ValueError:
        return href
    return parts.netloc.rpartition("@")[2] or parts.path


def _as_paragraphs(state: Any) -> None:
    for token in state.tokens:
        if token.type == "heading_open":
            token.attrSet("class", f"heading {token.tag}")
        if token.type in ("heading_open", "heading_close"):
            token.tag = "p"


def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True}, renderer_cls=Renderer)
    parser.enable(["table", "strikethrough"])
    parser.validateLink = _is_allowed  # type: ignore[method-assign,assignment]
    parser.core.ruler.push("headings", _as_paragraphs)
    return parser


def _is_allowed(href: str) -> bool:
    scheme, colon, _ = href.strip().partition(":")
    return bool(colon) and scheme.lower() in SCHEMES


PARSER = _parser()
