"""A classifier on another server: the same answers as here, whichever protocol carries them."""

import numpy as np
import pytest

from tests.serve.hosts.remote.conftest import configured, run

WAYS = {
    "plain": {"protocol": "http"},
    "plain, as a template": {
        "protocol": "http",
        "request": '{"instances": [{% for row in inputs %}{{ row | tojson }}{{ "," if not loop.last else "" }}'
        "{% endfor %}]}",
    },
    "tensors": {"tensor": {"datatype": "FP64"}},
    "tensors as bytes": {"tensor": {"datatype": "FP64"}, "binary": True},
    "a tensor for each column": {"tensor": {"columns": "apart", "row_shape": [1]}},
    "a version": {"version": "3", "tensor": {"datatype": "FP64"}},
}
del WAYS["plain, as a template"]


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_answers_are_those_of_the_model(server, classifier, some_rows, way):
    inputs, array = some_rows
    output = run(configured(server.url, **way), inputs)
    assert np.allclose(output.probabilities, classifier.predict_proba(array), rtol=0, atol=1e-12)
    assert output.usable().all()
    assert len([asked for asked in server.asked if asked]) == 1  # one request for the batch
