"""A stored report as it is, under a thin bar that leads on from it."""

import re
from base64 import b64encode
from hashlib import sha256

from jinja2 import Environment

from demur.audit.state.reports import Report
from demur.audit.visible import visible

STYLE = """<style>
.demur-bar { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; align-items: baseline; padding: .45rem 1rem;
  font: 15px/1.5 system-ui, sans-serif; background: #1c2126; color: #e6e9ec; }
.demur-bar a { color: #83c3ff; } .demur-bar b { font-weight: 700; } .demur-bar span { margin-left: auto; }
.demur-bar button { font: inherit; color: inherit; background: none; border: 1px solid #83c3ff; border-radius: 6px;
  padding: 0 .6rem; cursor: pointer; }
.demur-bar :is(a, button):focus-visible { outline: 3px solid #83c3ff; outline-offset: 2px; }
.demur-files { margin: .3rem 0 0; font: 13px/1.5 system-ui, sans-serif; } .demur-files a { margin-left: .4rem; }
@media print { .demur-bar, .demur-files { display: none; } }
</style>
"""

PRINT = """{
  const button = document.getElementById("demur-print");
  button.hidden = false;
  button.addEventListener("click", () => print());
}"""
"""The one script of a report: browsers save what they print as PDF. Without it one prints by the browser's own menu."""

ONLY_PRINT = f"'sha256-{b64encode(sha256(PRINT.encode()).digest()).decode()}'"
"""What the page may run: these very bytes, and nothing else."""

BAR = Environment(autoescape=True, finalize=visible).from_string(
    """
<nav class="demur-bar" aria-label="This report">
  <a href="{{ root }}/">← Reports</a>
  {% if board %}<a href="{{ at }}">The full report</a>{% else %}<a href="{{ at }}/board">For the board</a>{% endif %}
  {% if report.previous_id %}<a href="{{ at }}/compare">Compared with the last one</a>{% endif %}
  <a href="{{ at }}/report.html">HTML</a>
  <a href="{{ at }}/report.json">JSON</a>
  {% if report.rows_at %}<a href="{{ at }}/report.parquet">Parquet</a>{% endif %}
  <button type="button" id="demur-print" hidden>Save as PDF</button>
  <span>{{ report.extent.model }}, made by {{ report.made_by }}</span>
</nav>
"""
)


FILES = ("svg", "png", "csv")


def with_bar(html: str, report: Report, root: str, *, board: bool = False, cases_at: str = "") -> str:
    """The page with the bar at its top, with files below its pictures and tables, and, where `cases_at` is the address
    of the list of cases, with links from its numbers to those. What was stored is not changed otherwise."""
    at = f"{root}/reports/{report.id}"
    html = _with_cases(_with_files(html, at), cases_at)
    bar = BAR.render(report=report, root=root, at=at, board=board)
    styled = re.sub(r"(?i)</head>", lambda match: STYLE + match.group(), html, count=1)
    style = "" if styled != html else STYLE
    barred = re.sub(r"(?i)<body[^<>]*>", lambda match: match.group() + style + bar, styled, count=1)
    whole = barred if barred != styled else style + bar + styled
    return f"{whole}<script>{PRINT}</script>\n"


def _with_files(html: str, at: str) -> str:
    """Each picture of the report leads to files of it, and each table to its numbers."""

    name = ""

    def of_figure(found: re.Match[str]) -> str:
        nonlocal name
        opened, name = name, found["name"] or ""
        if name or not opened:
            return found.group()
        links = " ".join(f'<a href="{at}/figures/{opened}.{kind}">{kind.upper()}</a>' for kind in FILES)
        return f'<p class="demur-files">Picture {links}</p></figure>'

    def of_table(found: re.Match[str]) -> str:
        link = f'<a href="{at}/tables/{found["name"]}.csv">CSV</a>'
        return f'<p class="demur-files">Table {link}</p>{found.group()}'

    html = re.sub(r'<figure data-figure="(?P<name>[a-z0-9-]+)">|</figure>', of_figure, html)
    return re.sub(r'<div class="box" data-table="(?P<name>[a-z]+)"', of_table, html)


def _with_cases(html: str, cases_at: str) -> str:
    """Numbers that the report marks lead to the cases behind them. Their queries are as the report wrote them: encoded,
    and escaped for an attribute."""
    if not cases_at:
        return html
    return re.sub(
        r'<span data-cases="(?P<query>[^"<>]*)">(?P<text>[^<]*)</span>',
        lambda found: f'<a href="{cases_at}?{found["query"]}">{found["text"] or "see the cases"}</a>',
        html,
    )
