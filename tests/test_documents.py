"""Documents lead somewhere: links, sections that the code cites, and papers."""

import re
import unicodedata
from pathlib import Path

import pytest

from tests.conftest import ROOT

PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "deploy").rglob("*.md")]
CODE = [
    path
    for folder in ("audit", "calibration_store", "library", "policies", "review", "serve", "traffic", "uncertainty")
    for path in (ROOT / folder).rglob("*.py")
]
SECTION = re.compile(r"METHODS (\d+(?:\.\d+)?)")
CITED = re.compile(r"([A-ZÅÄÖ][\w'-]+)(?:,? (?:et al\.|(?:&|and) [A-Z][\w'-]+))?,? \(?((?:19|20)\d\d)\)?")
NO_NAMES = {"January", "Mon", "Nov", "Oct", "Apache", "Jan", "Broken"}


def text_of(page: Path) -> str:
    """A page without its blocks of code."""
    return re.sub(r"```.*?```", "", page.read_text(), flags=re.S)


def anchors_of(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub writes them."""
    headings = re.findall(r"^#+ (.*)$", text_of(page), re.M)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").replace("*", "") for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-") for heading in plain}


def plain(name: str) -> str:
    return unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)|srcset=\"([^\"]+)\"|src=\"([^\"]+)\"", text_of(page)):
        link = "".join(target)
        if link.startswith(("http:", "https:", "mailto:")):
            continue
        name, _, anchor = link.partition("#")
        there = (page.parent / name).resolve() if name else page
        assert there.exists(), f"{link}: there is no {there}"
        if anchor and there.suffix == ".md":
            assert anchor in anchors_of(there), f"{link}: there is no such heading"


def test_the_index_names_every_page() -> None:
    index = (ROOT / "docs/README.md").read_text()
    for page in (ROOT / "docs").rglob("*.md"):
        if page.name != "README.md":
            assert f"({page.relative_to(ROOT / 'docs')})" in index


def test_sections_that_are_cited_are_there() -> None:
    headings = set(re.findall(r"^##+ (\d+(?:\.\d+)?) ", (ROOT / "docs/methods.md").read_text(), re.M))
    headings |= {f"1.{number}" for number in range(5, 10)}  # under one heading
    cited = {number for path in (*CODE, *PAGES) for number in SECTION.findall(path.read_text())}
    assert len(cited) > 15
    assert cited <= headings


def test_papers_that_the_code_cites_are_listed() -> None:
    listed = plain((ROOT / "docs/references.md").read_text())
    missing = set()
    for path in CODE:
        for author, year in CITED.findall(path.read_text()):
            known = re.search(rf"{re.escape(plain(author))}[^|]*{year}", listed)
            if author not in NO_NAMES and not known:
                missing.add(f"{path.relative_to(ROOT)}: {author} {year}")
    assert missing == set()


@pytest.mark.parametrize("page", [page for page in (ROOT / "docs").rglob("*.md") if page.name not in ("README.md",)])
def test_a_long_page_begins_with_its_contents(page: Path) -> None:
    text = text_of(page)
    headings = re.findall(r"^## ", text, re.M)
    if text.count("\n") > 120 and len(headings) > 2 and page.name != "methods.md":
        contents = text.partition("**On this page:**")[2].partition("\n\n")[0]
        assert contents.count("](#") == len(headings), "the contents do not name each heading"
