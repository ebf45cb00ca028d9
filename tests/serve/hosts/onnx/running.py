"""A model, loaded for one batch."""

import asyncio

from demur.serve.contract.inputs import TableRow
from demur.serve.contract.model import ModelRequest
from demur.serve.hosts.kinds import kind_of


def run(model, inputs, *needs):
    """Return what the model takes, and what it says about these inputs."""

    async def main():
        loaded = await kind_of(model).load(model, None)
        try:
            return loaded.spec, await loaded.run(ModelRequest(inputs=inputs, needs=frozenset(needs)))
        finally:
            await loaded.close()

    return asyncio.run(main())


def rows_of(array):
    """Rows of a table of numbers."""
    return [TableRow(tuple(float(number) for number in row)) for row in array]
