"""How a person's name is kept: one line of printable characters."""

LONGEST_NAME = 100


def as_name(told: str) -> str | None:
    """A person's name in the one form in which it is kept; None for what cannot be one."""
    name = " ".join(told.split())
    return name if name and name.isprintable() and len(name) <= LONGEST_NAME else None
