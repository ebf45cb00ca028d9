"""Why somebody is not let in."""


class NotKnown(PermissionError):
    """Nobody knows who asks. Send a key as `Authorization: Bearer ...`, or log in; `demur keys make` makes a key."""


class NotAllowed(PermissionError):
    """Who asks is known, and may not do this. Use a key with the scope, or for the model, that the message names."""


class TooOften(RuntimeError):
    """This key has used up what it may ask for at the moment. Try again after `Retry-After` seconds."""

    seconds: float = 1.0
