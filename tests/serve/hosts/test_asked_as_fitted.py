"""Which replies an artifact may judge, by the parameters that an endpoint refused."""

import numpy as np
import pytest

from demur.calibration_store.artifact import Artifact, ArtifactRefused, ModelIdentity
from demur.serve.hosts.asked_as_fitted import (
    AskedDifferently,
    as_fitted,
    check_asked_as_fitted,
    check_same_way,
    left_out_in,
)
from demur.uncertainty.generation import Generation, Replies, as_column
from demur.uncertainty.output import Output

COLD, WARM = "temperature=0", "temperature=1"


def artifact(*left_out, name="talker-1", further=()):
    identity = ModelIdentity(checkpoint="m", fingerprint="f", labels=("a",), left_out=frozenset(left_out))
    later = {
        "model": ModelIdentity(checkpoint="l", fingerprint="g", labels=("a",), left_out=frozenset(further)).as_json()
    }
    cascade = {"large": later} if further else {}
    selectors = dict.fromkeys(cascade)
    return Artifact(
        name=name, manifest={"model": identity.as_json(), "cascade": cascade}, selector=None, further=selectors
    )


def output(*rows, unreadable=None):
    """Each row is what was left out of what was asked about it."""
    replies = [Replies(first=Generation(text="x"), said=0, left_out=frozenset(row)) for row in rows]
    probabilities = np.ones((len(rows), 1))
    return Output(logits=probabilities, probabilities=probabilities, replies=as_column(replies), unreadable=unreadable)


def test_rows_that_were_asked_otherwise_cannot_be_read():
    judged = as_fitted(output([], [COLD], [COLD, WARM]), artifact(COLD), "talker")
    assert judged.readable().tolist() == [True, True, False]
    assert "refuses temperature=1, with which artifact talker-1 was fitted" in judged.why_unusable()[2]


def test_what_could_not_be_read_anyway_keeps_its_reason():
    told = output([COLD], [COLD], unreadable=as_column(["it is empty", None]))
    assert as_fitted(told, artifact(), "talker").why_unusable()[0] == "it is empty"


def test_nothing_changes_where_all_is_as_it_was_fitted():
    told = output([COLD], [COLD])
    assert as_fitted(told, artifact(COLD), "talker") is told
    classifier = Output(logits=np.ones((1, 1)), probabilities=np.ones((1, 1)))
    assert as_fitted(classifier, artifact(), "talker") is classifier


def test_a_later_model_of_a_cascade_has_its_own():
    two = artifact(further=[COLD])
    assert as_fitted(output([COLD]), two, "large").readable().all()
    assert not as_fitted(output([COLD]), two, "talker").readable().any()


def test_an_artifact_is_refused_where_the_endpoint_refuses_more():
    check_asked_as_fitted(output([COLD]), artifact(COLD), "talker")
    with pytest.raises(ArtifactRefused, match="refuses temperature=0"):
        check_asked_as_fitted(output([], [COLD]), artifact(), "talker")


def test_two_artifacts_judge_the_same_replies_or_not_at_all():
    check_same_way(artifact(COLD), artifact(COLD, name="talker-2"), "talker")
    with pytest.raises(ArtifactRefused, match="only one was fitted without temperature=0"):
        check_same_way(artifact(COLD), artifact(name="talker-2"), "talker")


def test_rows_of_a_fit_were_all_asked_alike():
    assert left_out_in(output([COLD], [COLD])) == {COLD}
    assert left_out_in(Output(logits=np.ones((1, 1)), probabilities=np.ones((1, 1)))) == frozenset()
    unread = output([COLD], [], unreadable=as_column([None, "it is empty"]))
    assert left_out_in(unread) == {COLD}  # nothing is fitted on the other one
    with pytest.raises(AskedDifferently, match="refused temperature=0 in some of the rows and took it in others"):
        left_out_in(output([COLD], []))


def test_manifests_of_earlier_times_left_nothing_out():
    old = ModelIdentity(checkpoint="m", fingerprint="f", labels=("a",))
    assert "left_out" not in old.as_json()
    assert artifact().left_out_of("talker") == frozenset()
