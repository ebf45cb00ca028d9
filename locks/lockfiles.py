"""Write the lock files: every package that this project installs, pinned, with the hashes of all its files.

`make lock` runs this after a change of pyproject.toml. uv resolves for every platform and Python at once, from the
index. A version that is locked stays as long as it fits: to take newer ones, remove a file and run it. A package stands
in one file only:

    run.txt        what the service needs, PyTorch apart
    torch.txt      PyTorch from the main index, and the packages for CUDA that its wheels for Linux need
    torch-cpu.txt  the build of PyTorch for CPUs, which the main index does not have: taken where pip finds it
    features.txt   what parts of the service need that are not always configured: the image has it
    dev.txt        what tests and checks need besides
    bench.txt      what the comparisons need besides
"""

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent

PYTHON = "3.11"
"""The oldest that is resolved for."""

EXTRAS = {
    "run": ("classifier", "transformers", "audit", "embedded"),
    "features": ("lightgbm", "lora", "oidc", "onnx", "openai", "otel", "s3", "sklearn", "xgboost"),
    "dev": ("dev",),
    "bench": ("bench",),
}
"""What each file adds to those before it."""

OF_TORCH = re.compile(r"^(torch$|nvidia-|cuda-|triton$)")

ALONE = "lm-polygraph"
"""Installed without what it depends on: of its metrics, which are plain numpy, nothing else is imported."""

CPU_FILE = re.compile(r"--hash=sha256:([0-9a-f]{64})")

HEADER = """# Made by `make lock`; do not edit. Install with --no-deps --require-hashes.
# made from: {digest}
"""

Locked = dict[str, str]
"""What a lock file says about each package, by name: requirement, marker and hashes."""


def digest_of(project: str) -> str:
    """Of everything that a lock follows from, so that a lock which is out of date is seen."""
    told = tomllib.loads(project)
    asked = [
        told["build-system"]["requires"],
        told["project"]["requires-python"],
        told["project"]["dependencies"],
        told["project"]["optional-dependencies"],
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()


def read_lock(text: str) -> Locked:
    """The packages of a lock file."""
    body = "".join(line for line in text.splitlines(keepends=True) if not line.lstrip().startswith("#"))
    found = [one[0].rstrip() for one in re.finditer(r"^\S.*?(?=^\S|\Z)", body, re.M | re.S)]
    by_name = {name_of(one): one for one in found}
    if len(by_name) < len(found):
        raise ValueError("a package is locked in two versions, for two versions of Python; bound it in pyproject.toml")
    return by_name


def name_of(requirement: str) -> str:
    """The name in the one form in which names are compared."""
    return re.sub(r"[-_.]+", "-", re.split(r"[=<>!~;\[ ]", requirement, maxsplit=1)[0]).lower()


def version_of(requirement: str) -> str:
    return requirement.partition("==")[2].split()[0]


def resolved(asked: Iterable[str], *more: str) -> Locked:
    """What uv makes of some requirements, on all platforms; versions that are locked already stay."""
    known = [HERE / f"{part}.txt" for part in ("torch", *EXTRAS)]
    with tempfile.TemporaryDirectory() as folder:
        wanted, found = Path(folder) / "wanted.in", Path(folder) / "found.txt"
        wanted.write_text("\n".join(asked))
        found.write_text("".join(path.read_text() for path in known if path.exists()))
        command = [
            "uv", "pip", "compile", "--quiet", "--universal", "--python-version", PYTHON, "--generate-hashes",
            "--fork-strategy", "fewest", "--no-annotate", "--no-emit-package", "pip", "--output-file", str(found),
            *more, str(wanted),
        ]  # fmt: skip
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        return read_lock(found.read_text())


def for_cpus(torch: str, known: str) -> Locked:
    """The same version of PyTorch as it is built for CPUs: the hashes that are known of it, and that of the file which
    pip takes here, if it finds one."""
    wanted = f"{torch.split()[0]}+cpu"
    hashes = set(CPU_FILE.findall(known)) if wanted in known else set()
    command = [
        sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps",
        "--report", "-", wanted,
    ]  # fmt: skip
    told = subprocess.run(command, capture_output=True, text=True)  # noqa: S603
    if told.returncode == 0:
        (taken,) = json.loads(told.stdout)["install"]
        hashes.add(taken["download_info"]["archive_info"]["hashes"]["sha256"])
    return {"torch": " \\\n".join([wanted, *(f"    --hash=sha256:{digest}" for digest in sorted(hashes))])}


def write_locks() -> None:
    project = (ROOT / "pyproject.toml").read_text()
    told = tomllib.loads(project)
    header = HEADER.format(digest=digest_of(project))
    asked = [*told["project"]["dependencies"], *told["build-system"]["requires"]]
    before: Locked = {}
    for part, extras in EXTRAS.items():
        for extra in extras:
            asked += told["project"]["optional-dependencies"][extra]
        all_of_it = resolved(asked)
        if part == "bench":
            all_of_it |= resolved([ALONE], "--no-deps")
        new = {name: all_of_it[name] for name in all_of_it if name not in before}
        if part == "run":
            of_torch = {name: new.pop(name) for name in list(new) if OF_TORCH.match(name)}
            cpu = HERE / "torch-cpu.txt"
            built = for_cpus(of_torch["torch"], cpu.read_text() if cpu.exists() else "")
            (HERE / "torch.txt").write_text(header + text_of(of_torch))
            cpu.write_text(header + text_of(built))
        changed = [name for name in all_of_it if name in before and _pin(all_of_it[name]) != _pin(before[name])]
        if changed:
            sys.exit(
                f"{part} wants other versions of {', '.join(changed)} than the files before; bound them in pyproject"
            )
        (HERE / f"{part}.txt").write_text(header + text_of(new))
        before |= all_of_it


def text_of(locked: Locked) -> str:
    return "".join(f"{locked[name]}\n" for name in sorted(locked))


def _pin(text: str) -> str:
    return text.split()[0]


if __name__ == "__main__":
    write_locks()
