"""Every golden vector of a function that is built must be met, to the tolerance that it states."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.golden.registry import REGISTRY

FLOATS = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
CASES = [
    pytest.param(case, id=f"{path.stem}:{case['id']}")
    for path in sorted(Path(__file__).parent.glob("*.json"))
    for case in json.loads(path.read_text())["cases"]
    if case["fn"] in REGISTRY
]


def decoded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: decoded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return FLOATS.get(value, value) if isinstance(value, str) else value


def assert_equal(got: Any, want: Any, tolerance: float, place: str = "result") -> None:
    if isinstance(want, dict):
        for key, item in want.items():
            assert_equal(got[key], item, tolerance, f"{place}.{key}")
    elif isinstance(want, list):
        assert len(got) == len(want), place
        for index, item in enumerate(want):
            assert_equal(got[index], item, tolerance, f"{place}[{index}]")
    elif isinstance(want, bool | str) or want is None:
        assert got == want, place
    elif math.isnan(want):
        assert got is None or math.isnan(got), place
    elif math.isinf(want):
        assert got == want, place
    else:
        assert abs(got - want) <= tolerance * max(1, abs(want)), f"{place}: {got} instead of {want}"


@pytest.mark.parametrize("case", CASES)
def test_vector(case: dict[str, Any]) -> None:
    function, arguments = REGISTRY[case["fn"]], decoded(case["args"])
    if "raises" in case:
        with pytest.raises(ValueError):  # noqa: PT011 - the vectors ask for no more
            function(**arguments)
        return
    result = function(**arguments)
    assert_equal(
        result.tolist() if isinstance(result, np.ndarray) else result, decoded(case["expected"]), case.get("tol", 1e-9)
    )


def test_every_built_function_has_a_vector() -> None:
    assert set(REGISTRY) == {case.values[0]["fn"] for case in CASES}
