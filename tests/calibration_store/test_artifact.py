import json
from dataclasses import replace

import numpy as np
import pytest

from calibration_store.artifact import ArtifactRefused, pack, unpack
from policies.threshold import Threshold


def test_what_is_read_decides_exactly_as_what_was_written(files, selector, rows):
    again = unpack(files).selector
    before, after = selector.decide(rows.output), again.decide(rows.output)
    np.testing.assert_array_equal(after.confidence, before.confidence)
    np.testing.assert_array_equal(after.members, before.members)
    assert after.decisions == before.decisions
    for name in before.scores:
        np.testing.assert_array_equal(after.scores[name], before.scores[name])


def test_the_name_is_that_of_the_content(files, selector, identity):
    facts = {"report": {"accuracy": {"value": 0.8, "n": 10}}}
    assert pack(selector, model="toy", identity=identity, facts=facts).name == files.name
    assert pack(selector, model="toy", identity=identity, facts={}).name != files.name


def test_an_infinite_limit_survives_json(selector, identity):
    held = replace(selector, policy=Threshold(limit=np.inf, meaning="nothing was safe"))
    assert unpack(pack(held, model="toy", identity=identity, facts={})).selector.policy.limit == np.inf


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda f: replace(f, manifest=f.manifest.replace(b"0.8", b"0.9")), "was altered: its manifest"),
        (lambda f: replace(f, manifest=f.manifest[:-40]), "is half written: its manifest"),
        (lambda f: replace(f, manifest=b""), "is half written: its manifest"),
        (lambda f: replace(f, arrays=f.arrays[:-8]), "is half written: its arrays"),
        (lambda f: replace(f, arrays=f.arrays[:-1] + b"\xff"), "was altered: its arrays"),
        (lambda f: replace(f, name="toy-0123456789abcdef"), "was altered: its manifest"),
    ],
)
def test_damage_is_refused_in_one_sentence_that_says_which(files, damage, why):
    with pytest.raises(ArtifactRefused, match=why):
        unpack(damage(files))


def renamed(files, change):
    """A manifest that was changed and named anew, as a newer demur might write it."""
    from calibration_store.artifact import digest_of

    manifest = json.loads(files.manifest)
    change(manifest)
    text = json.dumps(manifest).encode()
    return replace(files, name=f"toy-{digest_of(text)}", manifest=text)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda m: m.update(format=2), "has format 2"),
        (lambda m: m["selector"]["calibrator"].update(kind="Spline"), "cannot be read by this demur"),
        (lambda m: m["selector"].pop("policy"), "cannot be read by this demur"),
    ],
)
def test_what_a_newer_demur_wrote_is_refused_and_not_guessed(files, change, why):
    with pytest.raises(ArtifactRefused, match=why):
        unpack(renamed(files, change))


def test_it_fits_the_model_that_it_was_fitted_for_and_no_other(files, identity):
    artifact = unpack(files)
    artifact.check_fits(identity)
    with pytest.raises(ArtifactRefused, match="another checkpoint"):
        artifact.check_fits(replace(identity, fingerprint="0" * 64))
    with pytest.raises(ArtifactRefused, match="another label set"):
        artifact.check_fits(replace(identity, labels=("yes", "no", "maybe")))  # the order counts
