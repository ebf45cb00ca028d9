"""A fit that is refused leaves a note beside the artifacts, and the refusal itself is what is raised."""

from datetime import UTC, datetime

import pytest

from demur.calibration_store.refusals import RefusedFits
from demur.calibration_store.shortfall import PromiseOutOfReach, RanksAtChance
from demur.serve.fitting.fit import refusal_noted
from demur.uncertainty.checks import UnknownScore

AT = datetime(2026, 11, 21, 8, tzinfo=UTC)


@pytest.fixture
def config(quickstart, tmp_path):
    return quickstart.model_copy(update={"artifacts": str(tmp_path / "artifacts")})


@pytest.mark.parametrize("kind", [PromiseOutOfReach, RanksAtChance, UnknownScore])
def test_it_says_when_why_and_on_what(config, kind):
    with pytest.raises(kind, match="too few"), refusal_noted(config, "digits", "a.csv", lambda: AT):
        raise kind("too few labels: 120 would do")
    noted = RefusedFits(config.artifacts).last("digits")
    assert (noted.at, noted.why, noted.data) == (AT.isoformat(), "too few labels: 120 would do", "a.csv")


def test_what_is_no_refusal_is_not_noted(config):
    with pytest.raises(OSError, match="disk"), refusal_noted(config, "digits", "a.csv", lambda: AT):
        raise OSError("disk")
    with refusal_noted(config, "digits", "a.csv", lambda: AT):
        pass
    assert RefusedFits(config.artifacts).last("digits") is None


def test_a_store_that_cannot_be_reached_hides_no_refusal(quickstart, tmp_path):
    (tmp_path / "file").write_text("no folder")
    config = quickstart.model_copy(update={"artifacts": str(tmp_path / "file/artifacts")})
    with pytest.raises(PromiseOutOfReach), refusal_noted(config, "digits", "a.csv", lambda: AT):
        raise PromiseOutOfReach("too few")
