"""What tests of `demur init` share."""

import pytest

from demur.serve.commands import rows_trial
from demur.serve.commands.starting import command


@pytest.fixture(autouse=True)
def no_model_is_run(monkeypatch):
    """A model is run on labelled rows in a process of its own, which takes seconds: tests/serve/commands/
    test_rows_trial.py has that."""
    real = rows_trial.how_right

    def how_right(config, name, **more):
        return real(config, name, **more) if config.models[name].host.is_given else iter(())

    monkeypatch.setattr(rows_trial, "how_right", how_right)
    monkeypatch.setattr(command, "how_right", how_right)
