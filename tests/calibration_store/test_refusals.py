"""The last refused fit of a model: kept, replaced, and never in the way."""

import pytest

from demur.calibration_store.refusals import LONGEST_WHY, RefusedFit, RefusedFits
from demur.calibration_store.store import ArtifactStore

FIRST = RefusedFit(at="2026-11-21T08:00:00+00:00", why="too few labels", data="a.csv")


@pytest.fixture
def kept(tmp_path):
    return RefusedFits(str(tmp_path / "artifacts"))


def test_the_last_one_is_kept(kept, tmp_path):
    assert kept.last("digits") is None
    kept.note("digits", FIRST)
    later = RefusedFit(at="2026-11-22T08:00:00+00:00", why="y" * 2 * LONGEST_WHY, data="b.csv")
    kept.note("digits", later)
    assert kept.last("digits").data == "b.csv"
    assert len(kept.last("digits").why) == LONGEST_WHY
    assert kept.last("sums") is None
    assert ArtifactStore(str(tmp_path / "artifacts")).names("digits") == []


@pytest.mark.parametrize("content", ["", "[1]", '{"at": 3}', "not json"])
def test_what_cannot_be_read_is_none(kept, tmp_path, content):
    kept.note("digits", FIRST)
    (tmp_path / "artifacts/digits/refused.json").write_text(content)
    assert kept.last("digits") is None
