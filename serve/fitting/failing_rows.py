"""Rows on which a model fails while it is run outside of the service, found one by one."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from demur.serve.contract.inputs import ModelInput
from demur.serve.contract.user_code import in_words
from demur.serve.hosts.kind import BadModelOutput
from demur.uncertainty.output import Output

Run = Callable[[Sequence[ModelInput]], Output]


class ModelFails(RuntimeError):
    """A model raises an error on a row, or what it gives cannot be read. Mend one of them, or leave the row out."""


class ModelHangs(RuntimeError):
    """A model has not come back in time. Look what it waits for, or give it more time."""


def run_each(run: Run, inputs: Sequence[ModelInput]) -> tuple[Output, Mapping[int, str]]:
    """Return what a model says about these inputs, and why it fails on some of them, by their place. The output has the
    words of another row in the place of those.

    Raises `ModelFails` where it fails on all, and what is wrong with more than a row as it is.
    """
    try:
        return run(inputs), {}
    except Exception as error:
        if _is_about_all(error):
            raise
        together = _words(error)
    outputs, failing = [], {}
    for at, value in enumerate(inputs):
        try:
            outputs.append(run([value]))
        except Exception as error:
            if _is_about_all(error):
                raise
            failing[at] = _words(error)
    if not outputs:
        raise ModelFails(f"the model fails on it and on {len(inputs) - 1:,} more rows: {together}")
    runs = np.array([at not in failing for at in range(len(inputs))])
    places = np.where(runs, np.cumsum(runs) - 1, 0)
    return Output.concatenate(outputs).rows(places), failing


def _is_about_all(error: Exception) -> bool:
    return type(error).__module__.split(".")[0] == "demur" and not isinstance(error, BadModelOutput)


def _words(error: Exception) -> str:
    return str(error) if isinstance(error, BadModelOutput) else in_words(error)
