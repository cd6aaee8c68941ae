"""Directory of a migration: everything that has to survive the process, in files that change as a whole.

plan.json       addresses (with passwords, hence mode 0600), findings
state.json      phase and its history
before.json     definitions of the new cluster before the migration
followed.json   definitions of the old cluster that were imported last
imported.json   keys of all entries that were ever imported
moved.log       ledger of moved messages, appended and synced before acknowledgements
arrived.json    publish ids that the new cluster has stored
status.json     status of the running command, for the others
run.lock        held by the process that moves messages
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mirrormq.migration.migration_records import Entered, Plan, State, Status, as_json
from mirrormq.migration.phases import Phase, Step, next_phase
from mirrormq.migration_io.broker_api import MigrationError

T = TypeVar("T")


def now_text() -> str:
    """Return the time in UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def sync_directory(path: Path) -> None:
    """Make renames in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class MigrationDirectory:
    """Files of one migration."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def create(self, plan: Plan) -> None:
        """Write plan and first state; an earlier plan is replaced while nothing has begun."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            if (self.path / "state.json").exists() and self.state().phase is not Phase.PLANNED:
                raise MigrationError(
                    f"{self.path} holds a migration in phase {self.state().phase}: choose another directory "
                    "with --dir"
                )
            self.write("plan.json", plan)
            self.write("state.json", State([Entered(Phase.PLANNED, now_text())]))
        except OSError as error:
            raise MigrationError(
                f"{self.path} cannot be written: {error.strerror}; choose another one"
            ) from None

    def plan(self) -> Plan:
        """Return the plan."""
        return self.read("plan.json", Plan)

    def state(self) -> State:
        """Return the state."""
        return self.read("state.json", State)

    def status(self) -> Status | None:
        """Return the status that a running command wrote last."""
        return self.read("status.json", Status) if (self.path / "status.json").exists() else None

    def advance(self, step: Step) -> Phase:
        """Make a transition durable; raise Refusal if the phase does not allow it."""
        with self._locked("state.lock", fcntl.LOCK_EX):
            state = self.state()
            phase = next_phase(state.phase, step)
            self.write("state.json", State([*state.history, Entered(phase, now_text())]))
        return phase

    def document(self, name: str) -> dict[str, Any] | None:
        """Return a JSON document; None if it was not written."""
        return self.read(name, dict[str, Any]) if (self.path / name).exists() else None

    def read(self, name: str, kind: type[T]) -> T:
        """Read one file."""
        try:
            return msgspec.json.decode((self.path / name).read_bytes(), type=kind)
        except FileNotFoundError:
            raise MigrationError(
                f"{self.path} holds no migration: run 'mirrormq migrate plan --dir {self.path}' first"
            ) from None
        except (OSError, msgspec.MsgspecError) as error:
            raise MigrationError(f"{self.path / name} cannot be read: {error}") from None

    def write(self, name: str, value: Any) -> None:
        """Replace one file; after a crash it is the old or the new one."""
        temporary = self.path / f".{name}.{os.getpid()}"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(as_json(value) + "\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / name)
            sync_directory(self.path)
        except OSError as error:
            raise MigrationError(
                f"{self.path / name} cannot be written ({error.strerror}): free space on its disk, or "
                "correct the owner of the directory"
            ) from None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Hold the lock of the one process that moves messages."""
        try:
            with self._locked("run.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield
        except BlockingIOError:
            raise MigrationError(
                f"another 'mirrormq migrate run' works on {self.path}: stop that one first"
            ) from None

    def is_running(self) -> bool:
        """Report whether a process moves messages."""
        with suppress(BlockingIOError), self._locked("run.lock", fcntl.LOCK_EX | fcntl.LOCK_NB):
            return False
        return True

    @contextmanager
    def _locked(self, name: str, mode: int) -> Iterator[None]:
        descriptor = os.open(self.path / name, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, mode)
            yield
        finally:
            os.close(descriptor)
