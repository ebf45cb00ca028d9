import pytest

from demur.audit import held_out


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    """Intervals of ranking metrics rest on few samples here: what they are worth is tested in tests/audit."""
    monkeypatch.setattr(held_out, "FEWEST_REPLICATES", 39)
    monkeypatch.setattr(held_out, "MOST_REPLICATES", 39)
