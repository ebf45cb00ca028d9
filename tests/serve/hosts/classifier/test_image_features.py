"""What an image model is given of pictures of other sizes."""

import subprocess
import sys

import numpy as np
import pytest
import torch
from PIL import Image

from demur.serve.contract.inputs import InputLimits
from demur.serve.contract.reading.inputs import read_inputs
from demur.serve.hosts.classifier.model import Classifier
from demur.serve.hosts.pixels import as_floats
from tests.conftest import ROOT, digit_rows
from tests.serve.contract.reading.png_files import png, url

pytestmark = pytest.mark.slow  # pictures of many megapixels

DIGITS = str(ROOT / "deploy/models/digits")
LIMITS = InputLimits(text_characters=1, image_pixels=4096 * 4096)


@pytest.fixture(scope="module")
def classifier() -> Classifier:
    return Classifier.of_checkpoint(DIGITS)


def grey(pixels: np.ndarray) -> str:
    height, width = pixels.shape
    return url(png(width, height, depth=8, rows=b"".join(b"\0" + row.tobytes() for row in pixels)))


@pytest.mark.parametrize("side", [24, 40, 100, 501, pytest.param(1000, marks=pytest.mark.long)])
def test_enlarged_digits_are_predicted_as_they_were_before_pictures_were_shrunk(classifier, digits, side):
    rows = digit_rows(digits)[:100]
    eight = [np.rint(np.asarray(row["input"]) * 255).astype(np.uint8) for row in rows]
    large = [np.asarray(Image.fromarray(one).resize((side, side), Image.Resampling.BICUBIC)) for one in eight]
    whole = classifier.run([as_floats(one)[np.newaxis] for one in large], frozenset()).probabilities
    read = read_inputs([grey(one) for one in large[:10]], classifier.spec, LIMITS)
    for start in range(10, 100, 10):
        read += read_inputs([grey(one) for one in large[start : start + 10]], classifier.spec, LIMITS)
    assert {one.shape for one in read} == {(1, 24, 24)}
    shrunk = classifier.run(read, frozenset()).probabilities
    np.testing.assert_array_equal(shrunk.argmax(axis=1), whole.argmax(axis=1))
    assert np.abs(shrunk - whole).max(axis=1).mean() < 0.005
    right = shrunk.argmax(axis=1) == [int(row["label"]) for row in rows]
    assert right.mean() >= 0.95


def test_eight_bits_and_floats_are_the_same_picture(classifier):
    bits = np.random.default_rng(0).integers(0, 256, (5, 1, 8, 8), dtype=np.uint8)
    floats = bits.astype(np.float32) / np.float32(255)
    wanted = classifier.run(list(floats), frozenset()).logits
    for images in (bits, list(bits), floats, [bits[0], floats[1], *bits[2:]]):
        np.testing.assert_array_equal(classifier.run(images, frozenset()).logits, wanted)


@pytest.mark.parametrize("checkpoint", [DIGITS, "tiny_convnext"])
def test_what_a_picture_is_given_as_does_not_depend_on_the_others(checkpoint, request):
    classifier = Classifier.of_checkpoint(checkpoint if checkpoint == DIGITS else request.getfixturevalue(checkpoint))
    spec = classifier.spec
    rng = np.random.default_rng(0)
    sides = [
        (spec.height, spec.width),
        (50, 70),
        (30, 30),
        (spec.height, spec.width),
        (1000, 900),
        (2000, 1500),
        (64, 2),
    ]
    images = [rng.integers(0, 256, (spec.channels, *size), dtype=np.uint8) for size in sides]
    images[3] = as_floats(images[3])
    alone = torch.cat([classifier._images.of([image])["pixel_values"] for image in images])
    together = classifier._images.of(images)["pixel_values"]
    torch.testing.assert_close(together, alone, rtol=0, atol=0)


CHILD = """
import resource, sys
import numpy as np
from demur.serve.hosts.classifier.model import Classifier
classifier = Classifier.of_checkpoint(sys.argv[1])
images = [np.zeros((3, 1500, 1500), np.uint8)] * 24
classifier.run(images[:1], frozenset())
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
classifier.run(images, frozenset())
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.long
def test_a_batch_of_large_pictures_is_resized_in_parts(tiny_convnext):
    """All at once they would be 650 MB of floating point."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, tiny_convnext], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert int(done.stdout) < 200 * 1024
