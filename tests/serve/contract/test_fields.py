"""A response says what its model has fields for, and nothing else."""

from types import SimpleNamespace

import pytest
from pydantic import BaseModel

from demur.serve.contract import wire
from demur.serve.contract.fields import fields_of
from tests.conftest import entry


class View(BaseModel):
    id: int
    name: str
    url: str


ONE = SimpleNamespace(id=1, name="one", unused=0)


def test_a_field_comes_from_what_is_told_or_else_from_the_first_source_that_has_it():
    assert fields_of(View, ONE, url="/1") == {"id": 1, "name": "one", "url": "/1"}
    assert fields_of(View, SimpleNamespace(id=2), ONE, url="/") == {"id": 2, "name": "one", "url": "/"}
    assert fields_of(View, ONE, name=None, url="/")["name"] is None


def test_a_field_that_nobody_fills_and_one_that_is_none_are_mistakes():
    with pytest.raises(AttributeError, match="url"):
        fields_of(View, ONE)
    with pytest.raises(TypeError, match="View has no field address"):
        fields_of(View, ONE, url="/", address="/")


def test_the_answer_that_every_request_waits_for_has_the_fields_of_its_model():
    record = entry().record
    assert list(wire.prediction_json(record)) == list(wire.Prediction.model_fields)
