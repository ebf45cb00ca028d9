"""The lock files agree with what pyproject.toml asks for."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement

from locks.lockfiles import EXTRAS, HERE, ROOT, digest_of, name_of, read_lock, version_of

PARTS = ("run", "torch", "torch-cpu", "features", "dev", "bench")
LOCKED = {part: read_lock((HERE / f"{part}.txt").read_text()) for part in PARTS}
PROJECT = (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("part", PARTS)
def test_a_lock_was_made_from_what_is_asked_for_now(part: str) -> None:
    told = re.search(r"^# made from: (\w+)$", (HERE / f"{part}.txt").read_text(), re.M)
    assert told is not None
    assert told[1] == digest_of(PROJECT), "run `make lock`"


def test_what_was_made_from_something_else_is_seen() -> None:
    assert digest_of(PROJECT) != digest_of(PROJECT.replace('"rich>=', '"richer>='))


@pytest.mark.parametrize("part", PARTS)
def test_every_package_is_pinned_and_hashed(part: str) -> None:
    assert LOCKED[part]
    for name, text in LOCKED[part].items():
        assert re.match(r"[\w.-]+(\[[\w,]+\])?==\S+", text), name
        assert re.search(r"--hash=sha256:[0-9a-f]{64}", text), name
        assert not re.search(r"https?://|file:|-e ", text), name


def test_a_package_stands_in_one_file() -> None:
    names = [name for part in PARTS if part != "torch-cpu" for name in LOCKED[part]]
    assert len(names) == len(set(names))
    assert version_of(LOCKED["torch-cpu"]["torch"]) == version_of(LOCKED["torch"]["torch"]) + "+cpu"


def test_every_dependency_is_locked_within_its_bounds() -> None:
    told = tomllib.loads(PROJECT)
    have = {**LOCKED["run"], **LOCKED["torch"]}
    asked = [*told["project"]["dependencies"], *told["build-system"]["requires"]]
    for part, extras in EXTRAS.items():
        have |= LOCKED[part]
        for text in [*asked, *(line for extra in extras for line in told["project"]["optional-dependencies"][extra])]:
            wanted = Requirement(text)
            assert wanted.specifier.contains(version_of(have[name_of(wanted.name)])), (part, text)


def test_the_image_can_do_all_that_can_be_configured() -> None:
    """Every extra of the service but vLLM, which the CUDA variant has; and nothing in it without a hash."""
    extras = set(tomllib.loads(PROJECT)["project"]["optional-dependencies"])
    assert set(EXTRAS["features"]) == extras - {"all", "bench", "dev", "vllm", *EXTRAS["run"]}
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    cpu = dockerfile.partition("FROM packages AS packages-cpu")[2].partition("FROM packages AS packages-cuda")[0]
    assert cpu.count("pip install") == 1
    assert "--require-hashes" in cpu
    for part in ("run", "torch-cpu", "features"):
        assert f"--requirement locks/{part}.txt" in cpu
    cuda = dockerfile.partition("FROM packages AS packages-cuda")[2].partition("\nFROM ")[0]
    for extra in (*EXTRAS["features"], "audit", "embedded"):
        assert f"'{extra}'" in cuda


def test_make_installs_from_the_locks_alone() -> None:
    makefile = (ROOT / "Makefile").read_text()
    assert "LOCKED := $(PIP) --no-deps --only-binary :all: --require-hashes" in makefile
    for part in PARTS:
        assert f"$(LOCKED) --requirement locks/{part}.txt" in makefile or f"--requirement locks/{part}.txt" in makefile
    assert (ROOT / ".ci/run").read_text().count("pip install") == 0
