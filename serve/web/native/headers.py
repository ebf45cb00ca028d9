"""Headers of requests that every protocol of the gateway understands, as its document describes them."""

from typing import Annotated

from fastapi import Header

from demur.serve.contract.wire import IDEMPOTENCY_KEY
from demur.serve.web.native.deadline import PATTERN

IdempotencyKey = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        description="Makes a retry safe: the same key with the same body returns the stored answer and writes nothing;"
        " with another body it is a 409. 1 to 255 printable ASCII characters without blanks.",
        json_schema_extra={"pattern": IDEMPOTENCY_KEY},
    ),
]

RequestTimeout = Annotated[
    str | None,
    Header(
        alias="X-Request-Timeout",
        description="For how many seconds you wait, such as 2.5. After that time you get a 504, and what has not been"
        " begun is not done. By default it is as long as the model takes, which is limited by `host.timeout_seconds`.",
        json_schema_extra={"pattern": PATTERN},
    ),
]
