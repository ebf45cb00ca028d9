"""Secrets that are shown once: how they are made, taken apart, and kept as a hash."""

import re
import secrets
import string
from dataclasses import dataclass, field
from hashlib import sha256
from hmac import compare_digest

LETTERS = string.ascii_letters + string.digits
ID_LETTERS = string.ascii_lowercase + string.digits

KEY = "demur"  # what a token begins with, so that people and scanners of secrets know one when they see it
CODE = "demurcode"
SESSION = "demursession"

FORM = re.compile(r"(demur(?:code|session)?)_([a-z0-9]{10})_([A-Za-z0-9]{40})")


@dataclass(frozen=True, slots=True)
class SecretToken:
    """A secret, and the name by which its hash is found. Its text is never in a repr."""

    kind: str
    id: str
    text: str = field(repr=False)

    @property
    def hash(self) -> bytes:
        """What is kept. The secret has 238 bits, so that one round of SHA-256 is all that it needs: slow hashes are for
        what people can remember."""
        return sha256(self.text.encode()).digest()

    def fits(self, kept: bytes) -> bool:
        """Whether this is the secret of which the hash was kept, in a time that does not tell how near it came."""
        return compare_digest(self.hash, kept)


def new_token(kind: str) -> SecretToken:
    token_id = "".join(secrets.choice(ID_LETTERS) for _ in range(10))
    secret = "".join(secrets.choice(LETTERS) for _ in range(40))
    return SecretToken(kind, token_id, f"{kind}_{token_id}_{secret}")


def read_token(text: str) -> SecretToken | None:
    """The token in a text; None for what cannot be one."""
    found = FORM.fullmatch(text)
    return SecretToken(found[1], found[2], text) if found else None
