"""A stored report as it is, under a thin bar that leads on from it."""

import re

from jinja2 import Environment

from demur.audit.state.reports import Report
from demur.audit.visible import visible

STYLE = """<style>
.demur-bar { display: flex; flex-wrap: wrap; gap: .2rem 1.2rem; align-items: baseline; padding: .45rem 1rem;
  font: 15px/1.5 system-ui, sans-serif; background: #1c2126; color: #e6e9ec; }
.demur-bar a { color: #83c3ff; } .demur-bar b { font-weight: 700; } .demur-bar span { margin-left: auto; }
.demur-bar a:focus-visible { outline: 3px solid #83c3ff; outline-offset: 2px; }
@media print { .demur-bar { display: none; } }
</style>
"""

BAR = Environment(autoescape=True, finalize=visible).from_string(
    """
<nav class="demur-bar" aria-label="This report">
  <a href="{{ root }}/">← Reports</a>
  {% if report.previous_id %}<a href="{{ at }}/compare">Compared with the last one</a>{% endif %}
  <a href="{{ at }}/report.html">HTML</a>
  <a href="{{ at }}/report.json">JSON</a>
  {% if report.rows_at %}<a href="{{ at }}/report.parquet">Parquet</a>{% endif %}
  <span>{{ report.extent.model }}, made by {{ report.made_by }}</span>
</nav>
"""
)


def with_bar(html: str, report: Report, root: str) -> str:
    """The page with the bar at its top. What was stored is not changed otherwise."""
    bar = BAR.render(report=report, root=root, at=f"{root}/reports/{report.id}")
    styled = re.sub(r"(?i)</head>", lambda match: STYLE + match.group(), html, count=1)
    style = "" if styled != html else STYLE
    barred = re.sub(r"(?i)<body[^<>]*>", lambda match: match.group() + style + bar, styled, count=1)
    return barred if barred != styled else style + bar + styled
