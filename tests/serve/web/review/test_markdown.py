"""Replies in Markdown: rendered where that helps, and harmless whatever stands in them."""

from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from demur.serve.web.review.markdown import LONGEST, rendered

LINES = ("p", "br", "strong", "em", "s", "code", "pre", "a", "span", "ul", "ol", "li", "blockquote", "hr")
TAGS = frozenset([*LINES, "table", "thead", "tbody", "tr", "th", "td"])
ATTRIBUTES = {"a": {"href", "rel", "target"}, "ol": {"start"}, "p": {"class"}, "span": {"class"}}


class Checker(HTMLParser):
    """Reads HTML as a browser does, and notes what is not allowed."""

    def __init__(self):
        super().__init__()
        self.found, self.links = [], []

    def handle_starttag(self, tag, attrs):
        names = dict(attrs)
        if tag not in TAGS or names.keys() - ATTRIBUTES.get(tag, set()):
            self.found.append((tag, attrs))
        if tag == "a":
            self.links.append(names["href"])
            if names["rel"] != "noopener noreferrer nofollow" or names["target"] != "_blank":
                self.found.append((tag, attrs))

    def handle_comment(self, data):
        self.found.append(("comment", data))


def checked(text):
    checker = Checker()
    checker.feed(str(rendered(text) or ""))
    assert checker.found == []
    assert all(link.split(":")[0].lower() in ("http", "https", "mailto") for link in checker.links)
    return checker.links


NASTY = [
    "<script>alert(1)</script> **x**",
    "<img src=x onerror=alert(1)> **x**",
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](java\tscript:alert(1))",
    "[x](&#106;avascript:alert(1))",
    "[x](javascript&colon;alert(1))",
    "[x](\x01javascript:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "[x](file:///etc/passwd)",
    "[x](/review/cases/1/withdraw)",
    "[x](//evil.example)",
    "<javascript:alert(1)>",
    '[x](http://a.example "onmouseover=alert(1)")',
    '[x](http://a.example/"onmouseover="alert(1))',
    "[x](http://a.example/'><script>alert(1)</script>)",
    "![x](http://a.example/t.png)",
    '![x" onerror="alert(1)](x)',
    "[![x](http://a.example/t.png)](http://b.example)",
    '```html" onload="alert(1)\n<b>\n```',
    "| a |\n|:-:|\n| <svg onload=alert(1)> |",
    "[r]\n\n[r]: javascript:alert(1)",
    "**a** <!-- --><style>*{display:none}</style>",
    "# &lt;script&gt;alert(1)&lt;/script&gt;",
    "**a** <a href=javascript:alert(1)>b</a>",
    "**a** [b](<javascript:alert(1)>)",
    "**\u202eevil** &#x202e; &#0;",
    '1. <input autofocus onfocus="alert(1)">',
]


@pytest.mark.parametrize("text", NASTY)
def test_nothing_in_it_can_do_anything(text):
    checked(text)


@given(
    st.lists(st.sampled_from([*NASTY, "[", "](", ")", "`", "\n\n", "> ", "- ", "|", "<", "&", '"', "http://"])).map(
        "".join
    )
)
def test_nor_can_any_mixture(text):
    checked(text)


def test_it_looks_as_it_was_meant():
    html = str(rendered("# Title\n\n* one\n* **two**\n\n`x < 1`\n\nline\nbreak"))
    assert html.split("\n") == [
        '<p class="heading h1">Title</p>',
        "<ul>",
        "<li>one</li>",
        "<li><strong>two</strong></li>",
        "</ul>",
        "<p><code>x &lt; 1</code></p>",
        "<p>line<br />",
        "break</p>",
        "",
    ]


@pytest.mark.parametrize(
    "text", ["", "plain", "two\nlines", "two\n\nparagraphs", "1 < 2 & so on", "a_b_c and 2 * 3 * 4"]
)
def test_a_plain_text_is_not_rendered(text):
    assert rendered(text) is None


@pytest.mark.parametrize("text", ["**a** " * LONGEST, "|" + "a|" * 2000 + "\n|" + "-|" * 2000 + "\nb" * 2000])
def test_what_would_take_long_is_not_rendered(text):
    assert rendered(text) is None


def test_a_link_shows_where_it_leads():
    assert "(evil.example)" in str(rendered("[bank.example](https://bank.example@evil.example/)"))
    assert ">http://a.example</a>" in str(rendered("[](http://a.example)"))
    assert checked("[a](https://a.example) and <mailto:b@c.example>") == ["https://a.example", "mailto:b@c.example"]


def test_hidden_characters_are_spelled_out():
    html = str(rendered("**a\u202eb** and &#x202e; and `\u2066`"))
    assert "\u202e" not in html
    assert html.count("[U+202E]") == 2
    assert "[U+2066]" in html
