"""What was stored gives no orders to the terminal of whoever looks at it, and is no markup of ours."""

import io
import logging
import sys

import pytest
from rich.table import Table
from rich.text import Text

from demur.serve import cli
from demur.serve.commands.terminal import Terminal
from demur.serve.config.file import BadConfig
from demur.serve.contract.printable import one_line, printable
from demur.serve.telemetry.logs import TextLines

HOSTILE = {
    "a colour": ("a\x1b[31mb", "a\\x1b[31mb"),
    "a title": ("\x1b]0;you\x07", "\\x1b]0;you\\x07"),
    "a link": ("\x1b]8;;http://x\x1b\\a", "\\x1b]8;;http://x\\x1b\\a"),
    "an eight-bit order": ("a\x9b2Jb", "a\\x9b2Jb"),
    "over what stood there": ("good\r\x08bad", "good\\r\\x08bad"),
    "the other way round": ("a\u202eb\u2066c", "a\\u202eb\\u2066c"),
    "deleted": ("a\x7fb\x00", "a\\x7fb\\x00"),
    "our markup": ("[red]a[/red] [/nothing] [link=http://x]b", "[red]a[/red] [/nothing] [link=http://x]b"),
    "plain": ("Größe → 5\u00a0% 👩‍🔬\tand\nmore", "Größe → 5\u00a0% 👩‍🔬\tand\nmore"),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_it_is_spelled_out(what):
    stored, shown = HOSTILE[what]
    assert printable(stored) == shown
    assert one_line(stored) == shown.replace("\n", "\\n")


@pytest.mark.parametrize("what", [what for what in HOSTILE if what != "plain"])
def test_it_is_shown_so_wherever_it_stands(what):
    stored, shown = HOSTILE[what]
    written = io.StringIO()
    terminal = Terminal(file=written, width=200)
    terminal.print(stored)
    table = Table(f"column {stored}", title=stored, caption=stored)
    table.add_row(stored)
    terminal.print(table)
    text = written.getvalue()
    assert printable(text) == text
    assert text.count(shown) == 5
    rows = [line for line in text.splitlines() if line.startswith(("┃", "│"))]
    assert len({len(line) for line in rows}) == 1  # the columns are as wide as what is shown


def test_colours_of_our_own_are_still_there():
    written = io.StringIO()
    Terminal(file=written, force_terminal=True, color_system="standard").print(Text("kept\x1b", style="green"))
    assert written.getvalue() == "\x1b[32mkept\\x1b\x1b[0m\n"


def test_an_error_gives_no_orders_either(monkeypatch):
    def fails():
        raise BadConfig("there is no model '\x1b[2J'")

    monkeypatch.setattr(cli, "app", fails)
    with pytest.raises(SystemExit) as told:
        cli.main()
    assert told.value.code == "demur: there is no model '\\x1b[2J'"


def test_nor_does_a_log():
    try:
        raise ValueError("\x1b[2Jno")
    except ValueError:
        record = logging.LogRecord(
            "demur", logging.ERROR, "", 0, "GET %s failed", ("/a\n\x1b[31mERROR b",), sys.exc_info()
        )
    text = TextLines().format(record)
    assert text.startswith("ERROR GET /a\\n\\x1b[31mERROR b failed\nTraceback")
    assert printable(text) == text
