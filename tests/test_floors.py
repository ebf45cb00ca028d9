"""The house as it is drawn: imports point down, never up, never sideways between the wings."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

BELOW = {
    "uncertainty": set(),
    "traffic": set(),
    "client": set(),
    "policies": {"uncertainty"},
    "review": {"traffic"},
    "calibration_store": {"policies", "uncertainty", "traffic"},
    "audit": {"calibration_store", "policies", "uncertainty", "review", "traffic"},
    "library": {"audit", "calibration_store", "policies", "uncertainty"},
    "serve": {"library", "audit", "client", "calibration_store", "policies", "uncertainty", "review", "traffic"},
}
"""What each room may import, besides itself and libraries."""

ONLY_UNDER_THE_ROOF = {"ray", "fastapi", "starlette", "pydantic", "typer", "asyncio", "torch", "transformers", "os"}
"""HTTP, Ray, the environment and models: the rooms below are plain functions of numbers and rows."""

DOORS = {"library": {"pydantic"}}
"""What a room may know of these all the same: the library takes settings from people, and checks them."""


@cache
def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: import from where a thing lives, not relatively"
            names.add(node.module or "")
    return {name.removeprefix("demur.").split(".")[0] for name in names}


@pytest.mark.parametrize("room", BELOW)
def test_imports_point_down(room: str) -> None:
    files = list((ROOT / room).rglob("*.py"))
    assert files, f"there is no room {room}"
    for path in files:
        stray = (imports(path) & set(BELOW)) - BELOW[room] - {room}
        assert not stray, f"{path.relative_to(ROOT)} reaches up or sideways to {sorted(stray)}"


@pytest.mark.parametrize("room", sorted(set(BELOW) - {"serve", "client"}))
def test_only_the_roof_knows_the_world(room: str) -> None:
    for path in (ROOT / room).rglob("*.py"):
        assert not imports(path) & (ONLY_UNDER_THE_ROOF - DOORS.get(room, set())), path.relative_to(ROOT)


def test_a_client_needs_httpx_and_nothing_else() -> None:
    """A program that only asks a service loads nothing of what makes one."""
    needed = {"demur", "client", "httpx", "rich"}
    for path in (ROOT / "client").rglob("*.py"):
        stray = {name for name in imports(path) if name not in sys.stdlib_module_names} - needed
        assert not stray, f"{path.relative_to(ROOT)} needs {sorted(stray)}"


def test_the_package_itself_loads_nothing() -> None:
    code = "import sys; before = set(sys.modules); import demur; print(*set(sys.modules) - before)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    assert {name.split(".")[0] for name in loaded.split()} <= {"demur", *sys.stdlib_module_names}


def test_no_room_is_missing_from_the_picture() -> None:
    rooms = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"demur"}
    assert rooms == set(BELOW)
    links = {path.name: path.readlink() for path in (ROOT / "demur").iterdir() if path.is_symlink()}
    assert links == {room: Path("..", room) for room in BELOW}


FLOORS = (
    {"cli"},
    {"commands"},
    {"local"},
    {"app"},
    {"configuration"},
    {"deployments"},
    {"jobs", "web"},
    {"fitting"},
    {"gateway", "hosts"},
    {"database"},
    {"access"},
    {"telemetry"},
    {"contract"},
    {"config"},
)
"""The rooms of `serve`, from the top down. A room imports from the floors below its own, and from itself."""

FLOORS_OF_AUDIT = (
    {"report", "held_out", "changes", "monitors", "opinions", "rating_plot", "replay", "shadowing"},
    {"label_lines", "group_lines", "metric_agreement", "promised_shares"},
    {"axes"},
    {"findings", "ledger", "drawing", "reviewer_error"},
    {"metrics", "state", "periods", "visible"},
)
"""The rooms of `audit`. `state` is what a running service reads and writes; everything else reads what was logged."""

FLOOR = {
    (house, room): floor
    for house, floors in (("serve", FLOORS), ("audit", FLOORS_OF_AUDIT))
    for floor, rooms in enumerate(floors)
    for room in rooms
}


@cache
def rooms_in(house: str, path: Path) -> set[str]:
    """The rooms of a house that a file imports from, also where it does so in a function or for types alone."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[2] for name in names if name.startswith(f"demur.{house}.")}
    return rooms


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[1].removesuffix(".py")


@pytest.mark.parametrize(("house", "room"), sorted(FLOOR))
def test_no_import_runs_up_or_sideways(house: str, room: str) -> None:
    files = [path for path in (ROOT / house).rglob("*.py") if room_of(path) == room]
    assert files, f"there is no room {house}/{room}"
    for path in files:
        for other in rooms_in(house, path) - {room}:
            assert FLOOR[house, other] > FLOOR[house, room], (
                f"{path.relative_to(ROOT)} reaches up or sideways to {house}/{other}"
            )


@pytest.mark.parametrize(("house", "floors"), [("serve", FLOORS), ("audit", FLOORS_OF_AUDIT)])
def test_every_room_has_one_floor(house: str, floors: tuple[set[str], ...]) -> None:
    rooms = {room_of(path) for path in (ROOT / house).rglob("*.py")} - {"__init__"}
    assert rooms == set().union(*floors)
    assert sum(map(len, floors)) == len(rooms)


@pytest.mark.parametrize("room", ["gateway", "hosts"])
def test_the_request_path_reads_the_state_of_audits_and_makes_none(room: str) -> None:
    reached = set().union(*(rooms_in("audit", path) for path in (ROOT / "serve" / room).rglob("*.py")))
    assert reached <= {"state", "metrics"}


def test_only_deployments_and_what_starts_them_know_ray() -> None:
    allowed = {"deployments", "app", "local", "commands"}
    knowing = {
        room_of(path)
        for path in (ROOT / "serve").rglob("*.py")
        if "ray" in imports(path) and room_of(path) not in allowed
    }
    assert knowing == set()
