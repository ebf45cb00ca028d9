"""What another user of the machine can do to a running service: nothing that a stranger at its port could not."""

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user"),
]

NOBODY = 65534

ATTACK = """
import json, os, socket, sys
os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
run, data = sys.argv[1:3]
done = []

def tried(what, work):
    try:
        work()
    except OSError:
        return
    done.append(what)

def connect(path):
    with socket.socket(socket.AF_UNIX) as end:
        end.connect(path)

for path in json.load(sys.stdin):
    tried("connected to " + path, lambda: connect(path))
    tried("opened " + path, lambda: open(path, "rb").close())
for folder in (run, data):
    tried("listed " + folder, lambda: os.listdir(folder))
    tried("renamed " + folder, lambda: os.rename(folder, folder + "-gone"))
    tried("wrote into " + folder, lambda: open(os.path.join(folder, "mine"), "w").close())
    inside = "ray", "proxy", "sockets", "ray/session_latest", "ray/session_latest/sockets", "postgres", "artifacts"
    for below in inside:
        there = os.path.join(folder, below)
        tried("renamed " + there, lambda: os.rename(there, there + "-gone"))
        tried("listed " + there, lambda: os.listdir(there))
print(json.dumps(done))
"""


def files_below(folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if not path.is_dir()]


def test_another_user_reads_nothing_connects_to_nothing_and_renames_nothing(service):
    run = service.run_folder
    everything = [*files_below(run), *files_below(service.folder / "var")]
    sockets = [path for path in everything if stat.S_ISSOCK(os.stat(path, follow_symlinks=False).st_mode)]
    assert any(path.endswith("admin.sock") for path in sockets)
    assert any("/sockets/digits~" in path for path in sockets)
    assert any(path.endswith("raylet") for path in sockets)
    assert any(".s.PGSQL." in path for path in sockets)
    attacked = subprocess.run(
        [sys.executable, "-I", "-S", "-c", ATTACK.format(nobody=NOBODY), str(run), str(service.folder / "var")],
        input=json.dumps(everything), capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert attacked.returncode == 0, attacked.stderr
    assert json.loads(attacked.stdout) == []


def test_the_attack_succeeds_where_nothing_guards(tmp_path):
    """Else the test above would show nothing."""
    bare = Path("/tmp") / f"demur-test-open-{os.getpid()}"
    bare.mkdir(mode=0o777)
    bare.chmod(0o777)
    (bare / "secret").write_text("x")
    (bare / "secret").chmod(0o644)
    try:
        attacked = subprocess.run(
            [sys.executable, "-I", "-S", "-c", ATTACK.format(nobody=NOBODY), str(bare), str(bare)],
            input=json.dumps([str(bare / "secret")]), capture_output=True, text=True, timeout=120,
        )  # fmt: skip
        assert f"opened {bare}/secret" in json.loads(attacked.stdout)
        assert f"listed {bare}" in json.loads(attacked.stdout)
    finally:
        subprocess.run(["rm", "-rf", str(bare)], check=True)
