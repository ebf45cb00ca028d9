"""How many fields a message over gRPC has: counted before it is parsed, because an empty field of two bytes becomes an
object."""

from collections.abc import Mapping

from demur.serve.contract.inputs import TooLarge

MOST_FIELDS = 50_000
"""Of one message: a request with 1,024 texts has some more than these 1,024."""

Inside = Mapping[int, "Inside"]
"""Fields that hold messages with fields of their own, by their numbers."""

CONTENTS: Inside = {}
INPUT: Inside = {5: CONTENTS}
OUTPUT: Inside = {}
REQUEST: Inside = {5: INPUT, 6: OUTPUT}
RESPONSE: Inside = {5: INPUT}

NUMBER, EIGHT_BYTES, BYTES, FOUR_BYTES = 0, 1, 2, 5
"""How a field is written."""


def check_fields(message: bytes, inside: Inside = REQUEST) -> None:
    """Raise `TooLarge` for a `ModelInferRequest`, or a response to one, of more fields than are taken. A message that
    is none may pass."""
    if len(message) <= 2 * MOST_FIELDS:  # each takes two bytes at least
        return
    left, waiting = MOST_FIELDS, [(0, len(message), inside)]
    while waiting:
        at, end, inside = waiting.pop()
        while at < end:
            left -= 1
            if left < 0:
                raise TooLarge(f"the message has more than {MOST_FIELDS:,} fields, which is what is taken at once")
            tag, at = _number(message, at, end)
            kind = tag & 7
            if kind == NUMBER:
                _, at = _number(message, at, end)
            elif kind == BYTES:
                length, at = _number(message, at, end)
                if (below := inside.get(tag >> 3)) is not None:
                    waiting.append((at, min(at + length, end), below))
                at += length
            else:
                at += {EIGHT_BYTES: 8, FOUR_BYTES: 4}.get(kind, 0)


def _number(message: bytes, at: int, end: int) -> tuple[int, int]:
    """A number of seven bits to a byte, the lowest first, and where it ends."""
    number = shift = 0
    while at < end and shift < 64:
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return number, at
