"""A remote host that asks the Open Inference Protocol of another demur over gRPC, with a real model behind that."""

import numpy as np
import pytest

from demur.serve.contract.inputs import TableRow
from demur.uncertainty.readings import outages_in
from tests.serve.conftest import LocalHost, make_handler
from tests.serve.hosts.remote.conftest import configured, run
from tests.serve.hosts.test_bad_inputs_of_kinds import RAISES, one_of
from tests.serve.model_server import LABELS, cells
from tests.serve.web.inference_protocol.test_grpc_server import served

pytestmark = pytest.mark.slow  # the other model is trained, and fitted on rows


def test_the_numbers_of_the_other_service_come_back(database, tmp_path):
    rows = [TableRow(tuple(row)) for row in cells()[0][:6].tolist()]
    with one_of("sklearn", tmp_path) as (config, running, _):
        handler = make_handler(config, {"cancer": LocalHost(running)}, database)
        with served(handler) as address:
            asks = configured(
                f"grpc://{address}",
                protocol="oip_grpc",
                tensor={"datatype": "FP64"},
                output="top_probabilities",
                output_labels="top_labels",
            )

            async def remarks(loaded):
                await loaded._looking
                return loaded.remarks()

            output, remarked = run(asks, rows, then=remarks)
            spoilt = run(asks, [rows[0], TableRow((RAISES, 30.0, 0.12)), rows[1]])
            nobody = run(asks.model_copy(update={"host": asks.host.model_copy(update={"model": "nobody"})}), rows[:1])
        decided = running.decide(rows)[0].decided
    assert remarked == []
    for at in range(len(rows)):
        own = dict(zip(decided.top_labels[at], decided.top_probabilities[at], strict=True))
        assert np.allclose(output.probabilities[at], [own[label] for label in LABELS], atol=1e-6)
    assert spoilt.usable().tolist() == [True, False, True]
    assert "there is no model 'nobody'" in outages_in(nobody)[0].why
