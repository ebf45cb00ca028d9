"""Why somebody is not let in."""


class NotKnown(PermissionError):
    """Nobody knows who asks. Send a key as `Authorization: Bearer ...`, or log in; `demur keys make` makes a key."""


class NotAllowed(PermissionError):
    """Who asks is known, and may not do this. Use a key with the scope, or for the model, that the message names."""


class UnknownHost(PermissionError):
    """The request names a host that is not this service. Use its address, or add the name to `http.names`."""


class FromElsewhere(PermissionError):
    """A page of another site must not act through somebody's browser. Use the pages of this service, or a key."""


class FormRefused(ValueError):
    """The body was sent as a form, which any web page can do. Send it with `Content-Type: application/json`."""


class TooOften(RuntimeError):
    """This key has used up what it may ask for at the moment. Try again after `Retry-After` seconds."""

    seconds: float = 1.0
