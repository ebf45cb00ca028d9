"""What many tests share: one real PostgreSQL for the session, a schema of its own for each test, the digits."""

import gc
import json
import os

os.environ["HF_HUB_OFFLINE"] = "1"  # models in tests are ours; nobody waits for a network. Read at import, so set first

import shutil
import tempfile
from collections import Counter
from collections.abc import Generator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, settings
from psycopg import Error, connect, sql
from psycopg.rows import class_row
from uuid_utils.compat import uuid7

from demur.review import queue, settling
from demur.review.item import NewCase, ReviewVerdict
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.traffic.database import Connection, Database
from demur.traffic.record import Answer, Entry, Record, ShadowDecision

NO_FAILURE = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]  # a busy machine; a database for all examples
settings.register_profile("quick", max_examples=25, deadline=None, suppress_health_check=NO_FAILURE)
settings.register_profile("whole", max_examples=200, deadline=None, suppress_health_check=NO_FAILURE)  # at night
settings.load_profile("quick")

ROOT = Path(__file__).parent.parent

PAGE_MILLISECONDS = 60_000
"""What a browser waits for at most on a page: on a busy machine a page of half a second takes many."""

WITHOUT_SERVICE = (
    "test_audit_browser",
    "test_audit_on_ray",
    "test_browser",
    "test_hidden_text_browser",
    "test_policy_browser",
    "test_review_keys",
    "test_review_pictures",
    "test_sparse_review",
)
"""In tests/system, and yet no test of a running service, unless it asks for one."""

TOGETHER = {
    "service": (
        "test_listeners",
        "test_second_user",
        "test_browser",
        "test_other_sites",
        "test_inference_protocol",
        "test_service",
        "test_release_road",
        "test_release",
    ),
    "watched": ("test_prometheus", "test_alarm", "test_local_sockets"),
    "talking": ("test_chat", "test_start"),
    "installed": ("test_journeys", "test_installed"),
}
"""Files of tests/system that share what takes long to start, by its fixture. One process runs them, in this order, in
which none is in the way of the next. Each other file is by itself."""

LONG_ALONE = (
    "test_access",
    "test_own_models",
    "test_tutorials",
    "test_ray_cli",
    "test_child_service",
    "test_every_page",
)

ORDER = [*(file for files in TOGETHER.values() for file in files), *LONG_ALONE]
"""What takes long begins first, so that no process is left with it at the end."""


def _needs_service(item: pytest.Item) -> bool:
    return item.path.stem not in WITHOUT_SERVICE or "service" in getattr(item, "fixturenames", ())


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is made while tests are collected stays: the garbage collector looks at none of it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _sort_by_slow_tests(items: list[pytest.Item]) -> None:
    """Put files with many slow tests first and small quick files last, so that no process waits for another at the end
    of a run that is handed out by file. What runs a service keeps its order, after all others."""
    slow, every = Counter[Path](), Counter[Path]()
    for item in items:
        every[item.path] += 1
        slow[item.path] += item.get_closest_marker("slow") is not None

    def place(item: pytest.Item) -> tuple[bool, int, int, str]:
        if item.get_closest_marker("service"):
            return True, 0, 0, ""
        return False, -slow[item.path], -every[item.path], str(item.path)

    items.sort(key=place)


def _is_of_system(item: pytest.Item) -> bool:
    return item.path.is_relative_to(ROOT / "tests/system")


def _group(file: str) -> str:
    return next((name for name, files in TOGETHER.items() if file in files), file)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Let `--dist loadfile` give the files that share a service to one process."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling  # here, because not every environment has it

    class LoadServices(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            return _group(Path(file).stem) if file.startswith("tests/system/") else file

    return LoadServices(config, log)


def _rank(item: pytest.Item) -> int:
    return ORDER.index(item.path.stem) if _is_of_system(item) and item.path.stem in ORDER else len(ORDER)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs a service is marked as such, so that it has the machine for itself, and so is what needs a database.
    Of tests/system what takes long comes first."""
    for item in items:
        if "postgres" in getattr(item, "fixturenames", ()):
            item.add_marker("database")
        if _is_of_system(item) and _needs_service(item):
            item.add_marker("service")
    items.sort(key=_rank)
    if "PYTEST_XDIST_WORKER" in os.environ:
        _sort_by_slow_tests(items)


@pytest.fixture(autouse=True)
def umask_stays() -> Iterator[None]:
    """Commands make files private, and some tests run a command in this process."""
    mask = os.umask(0o022)
    os.umask(mask)
    yield
    os.umask(mask)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """The address of a running PostgreSQL. Its folder has a short name because of its socket."""
    folder = Path(tempfile.mkdtemp(prefix="demur-test-"))
    with EmbeddedPostgres(folder) as server:
        yield server.dsn
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def empty_dsn(postgres: str) -> Iterator[str]:
    """The address of an empty schema."""
    name = f"test_{uuid7().hex}"
    with connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        yield _in_schema(postgres, name)
        connection.execute(sql.SQL("drop schema {} cascade").format(sql.Identifier(name)))


@pytest.fixture(scope="session")
def clean_schemas() -> Iterator[list["CleanSchema"]]:
    """Migrated schemas that the tests before have left as they found them: making one takes a tenth of a second."""
    schemas: list[CleanSchema] = []
    yield schemas
    for schema in schemas:
        schema.close()


@pytest.fixture
def dsn(postgres: str, clean_schemas: list["CleanSchema"]) -> Iterator[str]:
    """The address of a migrated schema in which nothing is."""
    schema = clean_schemas.pop() if clean_schemas else CleanSchema(postgres)
    yield schema.dsn
    if schema.emptied():
        clean_schemas.append(schema)


def _in_schema(postgres: str, name: str) -> str:
    # a test that kills the database starts one of its own; here nobody need wait for the disk
    return f"{postgres}&options=-csearch_path%3D{name}%20-csynchronous_commit%3Doff"


class CleanSchema:
    """A migrated schema that can be emptied again, on a connection that stays: a new one would have to learn about all
    tables first, which takes longer than to empty them."""

    KEPT = ("schema_migrations", "draw_key", "digest_keys", "review_transitions")

    def __init__(self, postgres: str) -> None:
        name = f"test_{uuid7().hex}"
        with connect(postgres, autocommit=True) as connection:
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
        self.dsn = _in_schema(postgres, name)
        open_database(self.dsn).close()
        self._name, self._connection = name, connect(self.dsn)
        self._connection.execute("set session_replication_role = replica; set lock_timeout = '500ms'")
        tables = self._connection.execute(
            "select relname from pg_class where relnamespace = %s::regnamespace and relkind = 'r'", (name,)
        ).fetchall()
        self._shape = self._shape_of(self._connection, name)
        self._connection.commit()
        self._emptying = "; ".join(f"delete from {table}" for (table,) in tables if table not in self.KEPT)

    def emptied(self) -> bool:
        """Empty it, and return whether it is as it was; one that a test has changed, or still uses, is left alone."""
        try:
            with self._connection.transaction():
                self._connection.execute(self._emptying)  # without triggers, which let nobody delete history
                clean = self._shape_of(self._connection, self._name) == self._shape
        except Error:
            clean = False
        if not clean:
            self.close()
        return clean

    def close(self) -> None:
        self._connection.close()

    @staticmethod
    def _shape_of(connection: Connection, name: str) -> list[tuple[Any, ...]]:
        return connection.execute(
            "select c.relname, c.relkind, c.relnatts, (select count(*) from schema_migrations),"
            "       (select count(*) from pg_constraint where conrelid = c.oid),"
            "       (select count(*) from pg_attribute where attrelid = c.oid and attnotnull),"
            "       (select string_agg(tgname::text || tgenabled::text, ',' order by tgname) from pg_trigger"
            "         where tgrelid = c.oid)"
            " from pg_class c where relnamespace = %s::regnamespace order by 1",
            (name,),
        ).fetchall()


@pytest.fixture
def database(dsn: str) -> Iterator[Database]:
    """A migrated database."""
    opened = open_database(dsn)
    yield opened
    opened.close()


def entry(**changes: Any) -> Entry:
    """Something to write: a held prediction, unless told otherwise."""
    key = changes.pop("key", None)
    value = changes.pop("input", [[0.0, 1.0], [1.0, 0.0]])
    record: dict[str, Any] = {
        "id": uuid7(),
        "created_at": datetime.now(UTC),
        "model": "toy",
        "artifact": "toy-1",
        "group": None,
        "prediction": "7",
        "top_labels": ["7", "1"],
        "top_probabilities": [0.61, 0.1 + 0.2],
        "prediction_set": ["7", "1"],
        "scores": {"softmax_response": 0.39, "entropy": None},
        "confidence": 0.61,
        "action": "review",
        "reason": "confidence 0.61 is below 0.93, the limit",
        "label_probability": 1.0,
        "timings": {"model": 1.5},
    }
    return Entry(record=Record(**{**record, **changes}), input=value, key=key)


def new_case(of: Entry | Record, **changes: Any) -> NewCase:
    """The case of a record, as if it was held, unless told otherwise."""
    record = of.record if isinstance(of, Entry) else of
    values = {
        "record_id": record.id,
        "model": record.model,
        "created_at": record.created_at,
        "group": record.group,
        "confidence": record.confidence,
    }
    return NewCase(**{**values, **changes})


def resolve(connection: Connection, case_id: UUID, reviewer: str, label: Answer) -> None:
    """A person looks at a case and answers it, beyond recall."""
    claim = queue.claim(connection, case_id, reviewer, lease_seconds=60)
    verdict = ReviewVerdict(label=label, saw_prediction=True)
    queue.answer(connection, case_id, reviewer, token=claim.token, verdict=verdict, undo_seconds=0)
    settling.settle(connection, settling.Settlement(), case_id)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the digits' parts: train, calibration and test."""
    from deploy.models.digits.parts import write  # here, because it takes scikit-learn

    folder = tmp_path_factory.mktemp("digits")
    write(folder)
    return folder


@pytest.fixture(scope="session")
def sums(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of the small language model; where it was not trained, one of its shape that knows nothing."""
    trained = ROOT / "deploy/models/sums"
    if (trained / "config.json").exists():
        return str(trained)
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from deploy.models.sums.tokens import trained_tokenizer

    folder = tmp_path_factory.mktemp("sums")
    tokenizer = trained_tokenizer(0)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        initializer_range=0.2,  # else every token is as probable as any other
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        LlamaForCausalLM(config).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def digit_rows(digits: Path, part: str = "test") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (digits / f"{part}.jsonl").read_text().splitlines()]


def find_shadow(connection: Connection, record_id: UUID) -> ShadowDecision | None:
    """What was decided about a prediction in the shadow; None when nothing was."""
    with connection.cursor(row_factory=class_row(ShadowDecision)) as cursor:
        cursor.execute(
            "select artifact, prediction, confidence, action, reason, prediction_set from shadow_decisions"
            " where record_id = %s",
            (record_id,),
        )
        return cursor.fetchone()
