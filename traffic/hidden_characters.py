"""Characters in a text from outside that nobody sees, or that turn the direction of others: found and spelled out.

Languages that run from right to left, scripts that need a joiner between letters, and emoji that are made of several
characters stay as they are.
"""

import re
from collections.abc import Callable

CONTROL = "\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029"
"""Control characters but tab and ends of lines; the two ends of lines that hardly anybody knows."""

DIRECTION = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
"""What turns the direction of the characters around it."""

INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e00ff\U000e01f0-\U000e0fff"
)
"""What takes no room, tags among them, in which a text can hide within another."""

ZERO_WIDTH_SPACE, NON_JOINER, JOINER = "\u200b", "\u200c", "\u200d"
STYLES = "\ufe00-\ufe0f"  # of the character before them, such as whether an emoji is drawn in colours
VARIANTS = "\U000e0100-\U000e01ef"  # of the ideograph before them
MONGOLIAN_VARIANTS = "\u180b-\u180f"  # and what parts a vowel from its word

NO_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1980-\u19ff\ua9e0-\ua9ff\uaa60-\uaa7f"
"""Scripts that have no space between words, and may have one without a width."""

JOINED = (
    "\u0600-\u061b\u061d-\u08ff\u0900-\u0dff\u1000-\u109f\u1780-\u17b3\u17b6-\u17ff\u1820-\u18aa\ufb50-\ufdff"
    "\ufe70-\ufefe"
)
"""Scripts in which a joiner, or what keeps from joining, changes how letters look."""

PICTURES = (
    "\u00a9\u00ae\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u2460-\u24ff\u25a0-\u27bf\u2900-\u297f\u2b00-\u2bff"
    "\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
IDEOGRAPHS = "\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
STYLED = f"0-9#*{PICTURES}{IDEOGRAPHS}\u1000-\u109f\u2200-\u22ff\u2a00-\u2aff\u3000-\u303f\ua840-\ua877\uff01-\uff60"
"""Characters of which there are several styles."""

SUSPECT = re.compile(
    f"[{CONTROL}{DIRECTION}{INVISIBLE}{ZERO_WIDTH_SPACE}{NON_JOINER}{JOINER}{STYLES}{VARIANTS}{MONGOLIAN_VARIANTS}]"
)

FLAGS = (
    "\U0001f3f4\U000e0067\U000e0062"
    "(?:\U000e0065\U000e006e\U000e0067|\U000e0073\U000e0063\U000e0074|\U000e0077\U000e006c\U000e0073)\U000e007f"
)
"""Of England, Scotland and Wales: the only emoji with tags."""

HIDDEN = re.compile(
    f"(?P<flag>{FLAGS})"
    f"|[{CONTROL}{DIRECTION}{INVISIBLE}]"
    f"|{ZERO_WIDTH_SPACE}(?![{NO_SPACES}])|(?<![{NO_SPACES}]){ZERO_WIDTH_SPACE}"
    f"|(?<![{JOINED}]){NON_JOINER}"
    f"|(?<![{JOINED}{PICTURES}\ufe0f]){JOINER}|(?<=[{PICTURES}\ufe0f]){JOINER}(?![{PICTURES}])"
    f"|(?<![{STYLED}])[{STYLES}]"
    f"|(?<![{IDEOGRAPHS}])[{VARIANTS}]"
    f"|(?<![\u1820-\u18aa])[{MONGOLIAN_VARIANTS}]"
)


def spelled_out(text: str, spell: Callable[[str], str]) -> str:
    """The text with each hidden character as `spell` writes it. Tabs and ends of lines stay."""
    if SUSPECT.search(text) is None:
        return text
    return HIDDEN.sub(lambda found: found[0] if found["flag"] else spell(found[0]), text)
