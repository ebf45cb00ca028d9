"""What a person types into a form or an address, as far as PostgreSQL keeps it: no text there holds the character 0."""

from typing import Annotated

from fastapi import Form, Request
from pydantic import AfterValidator

from demur.serve.contract.inputs import InvalidRequest


def _storable(text: str) -> str:
    if "\0" in text:
        raise ValueError("the character 0 cannot be stored; leave it out")
    return text


FormText = Annotated[str, AfterValidator(_storable), Form()]
"""What a person has typed into a form."""


async def only_storable(request: Request) -> None:
    """Raise `InvalidRequest` where a query holds the character 0: no text in the database does."""
    if any("\0" in value for value in request.query_params.values()):
        raise InvalidRequest("a query with the character 0 fits nothing that is stored; leave it out")
