"""`demur up`: database, artifacts, Ray and the applications, started in this order and stopped in the other."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NoReturn, TypeVar

from demur.serve.access.keys import make_key, revoke_key
from demur.serve.commands.clock_watch import ClockWatch
from demur.serve.config.access import Scope, check_guarded, reach_in_words
from demur.serve.config.file import Config
from demur.serve.contract.worker import Worker
from demur.serve.database.opening import open_database
from demur.serve.database.postgres import EmbeddedPostgres
from demur.serve.local.first_fit import first_fit
from demur.serve.local.memory_watch import MemoryWatch
from demur.serve.local.older_artifacts import check_artifacts
from demur.serve.local.one_service import only_one
from demur.serve.local.private_run import private_run
from demur.serve.local.run_folder import RunFolder, open_to_everybody
from demur.serve.local.service import CannotStart, LocalService, Say, check_any_left
from demur.serve.local.start_screen import show_start
from demur.serve.local.unusable_models import unusable_models
from demur.serve.telemetry.logs import JsonStream
from demur.traffic.database import Database, DatabaseUnavailable

LOOK_SECONDS = 0.2
"""How often it is looked whether the database lives, and what else may have happened."""

INTERRUPT_SECONDS = 3.0
"""So long a start that is interrupted has to clear away in order; then it is cut off."""

BACKSTOP_SECONDS = 10.0
"""Beyond the time that the start gives itself: for calls of Ray that do not come back."""

STDIN = 0

T = TypeVar("T")


class Interrupted(Exception):
    """Somebody stopped the service while it was still starting."""


def up(config: Config, config_path: Path, say: Say, *, with_older_artifact: bool = False) -> None:
    """Serve until SIGINT or SIGTERM, then stop everything that was started here.

    Raises `ConfigurationNotInForce` where an artifact in force was fitted with other settings than are configured,
    unless `with_older_artifact`, or the configuration, allows it.
    """
    if config.telemetry.logs == "json":
        sys.stdout = sys.stderr = JsonStream(sys.stderr, "demur.up")
    check_guarded(config.access, config.http.host)
    _check_port(config.http.host, config.http.port)
    if config.http.grpc_port is not None:
        _check_port(config.http.host, config.http.grpc_port, setting="http.grpc_port")
    allowed = with_older_artifact or config.on_difference == "warn"
    for difference in check_artifacts(config, allowed=allowed):
        say(difference)
    say(reach_in_words(config.access, config.http.host))
    if risk := open_to_everybody(config.data):
        say(risk)
    with only_one(config.data, say) as hold, private_run(config.data) as (folder, reaper):
        hold.note(folder)
        signals = Signals(reaper, say)
        with suppress(Interrupted), ExitStack() as opened:
            running = Running(config, config_path, folder, say, signals, opened)
            running.start()
            signals.started()
            running.watch(hold.check)
    say("stopped")


class Signals:
    """SIGINT and SIGTERM. They stop a service that runs in order, and one that still starts soon."""

    def __init__(self, reaper: Sequence[str], say: Say) -> None:
        """`reaper` is the command that ends all of a start."""
        self.stopping = threading.Event()
        self._reaper = reaper
        self._say = say
        self._starting = True
        self.take()

    def take(self) -> None:
        """Handle both signals here. Ray, when it starts, puts a handler of its own in the place of this one, so this is
        to be done again and again meanwhile."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._stop)

    def started(self) -> None:
        """From now on a signal waits for requests that have begun."""
        self._starting = False

    def _stop(self, _number: int, _frame: object) -> None:
        if self._starting and not self.stopping.is_set():
            timer = threading.Timer(INTERRUPT_SECONDS, self.cut_off)
            timer.daemon = True
            timer.start()
        self.stopping.set()

    def cut_off(self) -> NoReturn:
        """Let the reaper take the place of this process, whatever that waits for: all of its threads end at once.
        Nothing is lost, since what was acknowledged is on disk."""
        self._say("stopped")
        sys.stdout.flush()
        program, *arguments = self._reaper
        os.dup2(os.open(os.devnull, os.O_RDONLY), STDIN)  # it has nothing to wait for
        os.execve(program, [program, *arguments], {})  # noqa: S606 - a program of ours


class Running:
    """A service that runs in the foreground."""

    def __init__(
        self,
        config: Config,
        config_path: Path,
        folder: RunFolder,
        say: Say,
        signals: Signals,
        opened: ExitStack,
    ) -> None:
        """What is started here, `opened` ends when it is closed, the last first."""
        self._config = config
        self._config_path = config_path
        self._folder = folder
        self._say = say
        self._signals = signals
        self._stopping = signals.stopping
        self._opened = opened
        self._embedded: EmbeddedPostgres | None = None
        self._service: LocalService | None = None

    def start(self) -> None:
        """Come back when the service runs. Raises `CannotStart`, or `Interrupted` where it is to stop."""
        left_out = self._finished(lambda: unusable_models(self._config))
        check_any_left(self._config, left_out)
        database = self._finished(self._open_database)
        notes = self._finished(lambda: self._first_fits(left_out))
        began = time.monotonic()
        self._say("starting Ray and the model hosts; this takes some 20 seconds")
        with _own_key(self._config, database) as headers:
            self._service = LocalService(
                self._config, self._folder, self._say, headers=headers, interrupted=self._stopping.is_set
            )
            self._opened.callback(self._service.end)
            starting = self._service.start(left_out, notes)
            health = self._wait_for(starting, self._config.start_seconds + BACKSTOP_SECONDS)
        show_start(self._config, self._service.url, health, time.monotonic() - began, self._say)

    def watch(self, check_data: Callable[[], None]) -> None:
        """Keep the service running until it is to stop, then stop it in order. `check_data` raises where the data is
        gone."""
        assert self._service
        clock, memory = ClockWatch(), MemoryWatch()
        while not self._stopping.wait(LOOK_SECONDS):
            check_data()
            if self._embedded:
                self._embedded.keep_running()
            if seconds := clock.was_set_back():
                self._say(f"the clock was set back by {seconds:,.0f} s; starting Ray Serve's controller anew")
                self._service.renew_controller()
            if ended := memory.ended():
                self._say(
                    f"the system was out of memory and ended {ended} process(es); what belonged to this service is"
                    " started again, and what it acknowledged is on record"
                )
        self._service.stop(self._config.graceful_stop_seconds)

    def _open_database(self) -> Database:
        config = self._config
        if config.database == "embedded":
            self._say(f"starting PostgreSQL in {config.data / 'postgres'}")
            self._embedded = self._opened.enter_context(EmbeddedPostgres(config.data, say=self._say))
            self._opened.callback(self._say, "stopping the database ...")
            self._config = config = config.model_copy(update={"database": self._embedded.dsn})
        database = open_database(config.database)  # so that trouble with it shows here, in one sentence
        self._opened.callback(database.close)
        return database

    def _first_fits(self, left_out: Mapping[str, str]) -> dict[str, str]:
        """Fit what has no artifact yet; why that failed, by model."""
        notes = {}
        for name in self._config.models:
            if name not in left_out and not self._stopping.is_set():
                notes[name] = first_fit(self._config, self._config_path, name, self._say, self._stopping.is_set)
        return {name: why for name, why in notes.items() if why}

    def _finished(self, work: Callable[[], T]) -> T:
        """Do some work in a thread of its own, so that a signal is obeyed whatever the work waits for."""
        return self._wait_for(Worker("start").submit(work), None)

    def _wait_for(self, work: "Future[T]", seconds: float | None) -> T:
        deadline = None if seconds is None else time.monotonic() + seconds
        while not work.done() and not self._stopping.wait(0.05):
            self._signals.take()
            if deadline is not None and time.monotonic() > deadline:
                assert self._service
                raise CannotStart(f"{self._service.stage}, although it was waited for {seconds:g} s")
        if self._stopping.is_set():
            if self._service:
                self._signals.cut_off()  # Ray can neither be interrupted while it starts nor left in order
            with suppress(BaseException):  # what it comes to does not matter any more, but it uses what is closed next
                work.result()
            raise Interrupted
        return work.result()


@contextmanager
def _own_key(config: Config, database: Database) -> Iterator[dict[str, str]]:
    """Headers with which the service tells this process how it is: where keys are asked for, one for these minutes."""
    if config.access is None or config.access.mode == "open":
        yield {}
        return
    until = datetime.now(UTC) + timedelta(seconds=2 * config.start_seconds)
    with database.transaction() as connection:
        key = make_key(connection, "demur up", [Scope.AUDIT], by="demur up", expires_at=until)
    try:
        yield {"Authorization": f"Bearer {key.text}"}
    finally:
        with suppress(DatabaseUnavailable), database.transaction() as connection:  # it ends by itself
            revoke_key(connection, key.id, by="demur up")


def _check_port(host: str, port: int, setting: str = "http.port") -> None:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise CannotStart(
                f"port {port} on {host} is taken ({error.strerror}); stop what uses it, or set {setting} to another"
            ) from None
