from pathlib import Path

import numpy as np
import pytest

from benchmarks.real import audits
from benchmarks.real.audit_cases import AuditCase, coded, labelled_traffic
from demur.audit.ledger.ledger import NONE, CodedColumn

pytestmark = [pytest.mark.slow, pytest.mark.long]

DOCUMENT = Path(__file__).parents[2] / "docs/evidence/audits.md"


@pytest.fixture(scope="module")
def case() -> AuditCase:
    rng = np.random.default_rng(1)
    confidence = rng.beta(5, 1, 1_500)
    return AuditCase(
        name=audits.BY_GROUP,
        about="made up",
        confidence=confidence,
        limit=float(np.quantile(confidence, 0.15)),
        quality=(rng.random(1_500) < confidence).astype(float),
        groups=coded(np.where(rng.random(1_500) < 0.5, "left", "right").tolist()),
        max_risk=0.3,
    )


def test_labels_that_a_service_would_not_have_are_hidden(case: AuditCase) -> None:
    rows = np.arange(len(case))

    ledger = labelled_traffic(case, rows, 0.1, np.random.default_rng(2))

    held = case.confidence < case.limit
    assert np.array_equal(ledger.known[held], np.ones(held.sum(), dtype=bool))
    assert 0.05 < ledger.known[~held].mean() < 0.15
    assert np.array_equal(ledger.quality[ledger.known], case.quality[ledger.known])
    assert np.array_equal(ledger.known, ledger.reviewed)
    assert (ledger.sources.codes == NONE).sum() == (~ledger.known).sum()


def test_texts_are_coded_in_order_of_the_alphabet() -> None:
    found = coded(["b", "a", "b"])

    assert isinstance(found, CodedColumn)
    assert found.names == ("a", "b")
    assert found.codes.tolist() == [1, 0, 1]


def test_audits_of_a_sound_service_are_centred_and_cover(case: AuditCase) -> None:
    found = audits.drawn(case, 0.2, draws=20, replicates=99, step=lambda: None)

    value, lower, upper, naive = found.numbers["risk"].T
    truth = audits.METRICS["risk"](case)
    assert abs(value.mean() - truth) < 0.03
    assert ((lower <= truth) & (truth <= upper)).mean() >= 0.7
    assert (naive > truth + 0.05).all()
    assert sum(found.verdicts.values()) == 20


def test_the_document_shows_what_is_made(case: AuditCase) -> None:
    made = audits.tables([case], draws=2, replicates=99, step=lambda: None)

    text = DOCUMENT.read_text(encoding="utf-8")
    for name, table in made.items():
        assert f"<!-- table: {name} -->" in text
        assert table.split("\n", maxsplit=1)[0] in text  # with the same columns


def test_without_the_data_it_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert audits.main(["--data", str(tmp_path)]) == 0
    assert "nothing to audit" in capsys.readouterr().out
