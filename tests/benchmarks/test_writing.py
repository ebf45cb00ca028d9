import argparse
import random

import pytest

from benchmarks import writing
from demur.traffic import log

pytestmark = pytest.mark.slow


def test_each_way_is_measured(postgres) -> None:
    options = argparse.Namespace(group=[3, 5], rows=15, rounds=1)
    tried = [way for way in [*writing.ways(), *writing.without()] if "thin" in way.name or "none of" in way.name]

    table = writing.compared(options, postgres, tried)

    assert table.row_count == len(tried) == 2


def test_the_ways_leave_the_same_records(database) -> None:
    rng = random.Random(0)
    ways = [way for way in writing.ways() if "thin" not in way.name][:-2]
    blocks = [writing.made_up(4, rng) for _ in ways]
    with database.by_themselves() as connection:
        connection.execute(writing.ByArrays("").schema)
        for way, block in zip(ways, blocks, strict=True):
            way.write(connection, way.prepare(block))
            connection.execute("deallocate prepare by_arrays") if way.schema else None
            found = log.find(connection, block.ids)
            assert found == {entry.record.id: entry.record for entry in block.entries()}, way.name
            assert [log.find_input(connection, one) for one in block.ids] == block.inputs
