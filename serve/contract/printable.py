"""Text from outside, as a terminal may be shown it."""

from demur.traffic.hidden_characters import spelled_out


def printable(text: str) -> str:
    """Return a text with some characters spelled out, such as \\x1b: those with which text moves the cursor, sets
    titles, answers for whoever types, turns the direction of what follows, or hides."""
    return spelled_out(text, _escaped).replace("\r", "\\r")


def one_line(text: str) -> str:
    """Return a text as `printable` does, without ends of lines, so that nobody adds lines to a log."""
    return printable(text).replace("\n", "\\n")


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
