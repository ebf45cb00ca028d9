"""The artifact store on a real S3 server, which speaks HTTP on loopback."""

import multiprocessing
import socket
import subprocess
import sys

import pytest
import s3fs

from demur.calibration_store.artifact import pack
from demur.calibration_store.folder import ArtifactsUnreachable, Folder
from demur.calibration_store.standing import Canary, Standing
from demur.calibration_store.store import ArtifactNotFound, ArtifactStore
from tests.calibration_store.at_once import CANARY, check_three_at_once, clock

pytestmark = pytest.mark.slow

SERVER = """
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

# one request at a time: S3 looks and stores in one step, moto in two
server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=False)
print(server.server_port, flush=True)
server.serve_forever()
"""

SAID = {"by": "ada", "why": "", "clock": clock}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The server's address, and the log of its requests."""
    log = tmp_path_factory.mktemp("s3") / "requests.log"
    with log.open("w") as lines:
        process = subprocess.Popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, stderr=lines, text=True)
    port = int(process.stdout.readline())
    yield f"http://127.0.0.1:{port}", log
    process.terminate()
    process.wait(20)
    process.stdout.close()


@pytest.fixture
def s3(server, monkeypatch, tmp_path):
    """The environment of somebody who has a bucket; nothing of this machine's own shows through."""
    for name, value in {
        "AWS_ENDPOINT_URL": server[0],
        "AWS_ACCESS_KEY_ID": "ada",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_CONFIG_FILE": str(tmp_path / "none"),
        "AWS_SHARED_CREDENTIALS_FILE": str(tmp_path / "none"),
    }.items():
        monkeypatch.setenv(name, value)
    s3fs.S3FileSystem.clear_instance_cache()  # one that was made before has another address
    yield s3fs.S3FileSystem()
    s3fs.S3FileSystem.clear_instance_cache()


@pytest.fixture
def url(s3, tmp_path):
    """The address of an empty folder in a bucket."""
    s3.makedirs("bucket", exist_ok=True)
    return f"s3://bucket/{tmp_path.name}"


@pytest.fixture
def three(selector, identity):
    return [pack(selector, model="toy", identity=identity, facts={"which": which}) for which in range(3)]


def test_the_life_of_three_artifacts(url, three):
    store = ArtifactStore(url)
    a, b, c = (each.name for each in three)
    assert store.standing("toy") == Standing()
    for each in (*three, *three):
        store.save("toy", each)
    assert store.names("toy") == sorted([a, b, c])
    store.promote("toy", a, **SAID)
    store.promote("toy", b, **SAID)
    store.shadow("toy", a, **SAID)
    store.start_canary("toy", c, **CANARY, **SAID)
    canary = Canary(artifact=c, since=clock().isoformat(), **CANARY)
    assert ArtifactStore(url).standing("toy") == Standing(in_force=b, shadow=a, canary=canary)
    assert store.rollback("toy", **SAID).standing == store.standing("toy") == Standing(in_force=a)
    assert store.in_force("toy").manifest["which"] == 0
    assert [change.number for change in ArtifactStore(url).history("toy")] == [1, 2, 3, 4, 5]
    with pytest.raises(ArtifactNotFound, match="no artifact 'toy-1' for model 'toy' in s3://bucket/"):
        store.load("toy", "toy-1")


def test_what_hosts_ask_every_other_second_is_two_requests(url, three, server):
    store = ArtifactStore(url)
    for each in three:
        store.save("toy", each)
        store.promote("toy", each.name, **SAID)

    def requests():
        return [line.split('"')[1] for line in server[1].read_text().splitlines() if '"' in line]

    before = len(requests())
    store.standing("toy")
    cost = requests()[before:]
    assert [line.split("GET /bucket")[1][0] for line in cost] == ["?", "/"], cost  # the list, the last entry
    store.load("toy", three[0].name)
    assert len(requests()) - before == 4  # manifest and arrays


def take(url, who, start, given):
    folder = Folder(url)
    folder.exists("race")  # connected, before it is a matter of milliseconds
    won = []
    for number in range(50):
        start.wait(60)
        if folder.create(f"race/{number}", who):
            won.append(number)
    given.put(won)


def test_of_two_who_create_a_file_one_succeeds(url):
    processes = multiprocessing.get_context("spawn")
    start, given = processes.Barrier(2), processes.Queue()
    people = [processes.Process(target=take, args=(url, who, start, given)) for who in (b"ada", b"bob")]
    for each in people:
        each.start()
    won = [given.get(timeout=60) for _ in people]
    for each in people:
        each.join()
    assert sorted(won[0] + won[1]) == list(range(50))


@pytest.mark.long
def test_promoting_shadowing_and_a_canary_at_once_lose_no_change(url, selector, identity):
    check_three_at_once(
        url, [pack(selector, model="toy", identity=identity, facts={"which": which}) for which in range(4)]
    )


def test_a_bucket_that_is_not_there(s3, three):
    store = ArtifactStore("s3://nowhere/artifacts")
    for ask in (
        lambda: store.standing("toy"),
        lambda: store.names("toy"),
        lambda: store.load("toy", "toy-1"),
        lambda: store.save("toy", three[0]),
    ):
        with pytest.raises(
            ArtifactsUnreachable, match=r"in s3://nowhere/artifacts .* bucket does not exist; create it"
        ):
            ask()


def test_no_credentials(s3, url, monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    s3.clear_instance_cache()
    with pytest.raises(ArtifactsUnreachable, match=f"in {url} cannot .* set AWS_ACCESS_KEY_ID"):
        ArtifactStore(url).standing("toy")


def test_a_server_that_does_not_answer(s3, url, monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound, but nobody listens
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
        monkeypatch.setenv("AWS_ENDPOINT_URL", address)
        s3.clear_instance_cache()
        with pytest.raises(ArtifactsUnreachable, match=f"in {url} cannot .*{address}.*; check the address"):
            ArtifactStore(url).standing("toy")
