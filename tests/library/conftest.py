import pytest

from demur.audit import held_out


@pytest.fixture(scope="session", autouse=True)
def few_replicates():
    """Intervals of ranking metrics rest on few samples here: what they are worth is tested in tests/audit."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "FEWEST_REPLICATES", 39)
        patch.setattr(held_out, "MOST_REPLICATES", 39)
        yield
