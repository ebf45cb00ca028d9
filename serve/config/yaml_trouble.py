"""Why a file is no YAML, in words for whoever wrote it."""

import re

import yaml

from demur.serve.config.mistake import Mark


class NotYaml(ValueError):
    """A file cannot be read as YAML. The message names the file, the line and column, and what to write."""


WORDS: tuple[tuple[str, str], ...] = (
    (r"found character '\\t'", "a tab stands here; indent with blanks"),
    (r"found character '(?P<what>.)' that cannot", 'a text that begins with "{what}" needs quotes'),
    (
        r"mapping values are not allowed",
        "a `:` is not expected here; put a text with a colon in quotes, and see whether the line above lacks its own",
    ),
    (r"expected ',' or ']'", "the list that `[` opens in line {line} is not closed, or a comma is missing in it"),
    (r"expected ',' or '}'", "what `{{` opens in line {line} is not closed by `}}`, or a comma is missing in it"),
    (r"expected the node content, but found '<stream end>'", "the file ends where a value is wanted"),
    (r"expected the node content", "a value is wanted here"),
    (
        r"expected <block end>",
        "this does not line up with the lines above; check the indentation, and the quotes around texts",
    ),
    (
        r"found undefined alias '(?P<what>[^']*)'",
        "`*{what}` stands for `&{what}`, which is nowhere above; put a text that begins with * in quotes",
    ),
    (r"another document", "a second document begins here with `---`; a file has one"),
    (r"unexpected end of stream", "the quotes that open in line {line} are never closed"),
    (r"unknown escape character '(?P<what>.)'", "`\\{what}` means nothing within double quotes; use single quotes"),
    (r"could not find expected ':'", "a `:` is missing behind the key in line {line}"),
    (r"sequence entries are not allowed", "a list of `-` begins on a line of its own"),
    (r"second occurrence", "an anchor of this name is there twice, first in line {line}"),
)
"""What PyYAML says, and what is said here."""


def in_words(error: Exception) -> str:
    """Where in the file it is, and what is wrong there."""
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        where = f", {Mark(mark.line + 1, mark.column + 1)}" if mark else ""
        opened = error.context_mark or mark
        return f"{where}: {_said(error.problem or error.context or '', opened.line + 1 if opened else 0)}"
    if isinstance(error, yaml.reader.ReaderError):
        return f": character {error.position + 1} is not taken in YAML (U+{_number(error.character):04X}); leave it out"
    return ": too many lists or mappings lie within each other"


def _said(problem: str, line: int) -> str:
    for pattern, words in WORDS:
        if found := re.search(pattern, problem):
            return words.format(line=line, **found.groupdict())
    return f"this is not YAML: {problem}"


def _number(character: object) -> int:
    return character if isinstance(character, int) else ord(str(character)[:1] or "\0")
