"""The metadata store: the state, the log that makes it last, and those who follow its changes.

`write` applies a command, logs it, tells the listeners and then calls `done`. Today all of that has
happened when `write` returns; when the log is replicated, `done` comes later. Callers that wait for
`done` are right in both worlds.

Commands do not say whose they are: that is nothing to apply or keep, only to tell. Whoever acts for
somebody writes under `acting_as`; any other write is the broker's own, and so is what a listener writes.

What failed to be logged must not be lived with: an exception from the log leaves the state ahead
of the disk, and the node that sees one stops.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import msgspec

from mirrormq.metadata import commands
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import Command
from mirrormq.metadata.defaults import DEFAULT_VHOST, DEFAULT_VHOST_DESCRIPTION
from mirrormq.metadata.records import Binding, Exchange, Permission, Queue, User, Vhost
from mirrormq.metadata.state import State

LOG_BYTES_MAX = 4 * 1024 * 1024
"""The log is replaced by a snapshot when its entries outweigh both this and the last snapshot:
about 40,000 declarations, which replay in well under a second."""

ALL_NAMES = ".*"

INTERNAL_USER = "rmq-internal"
"""The name that RabbitMQ gives to the broker where it tells who did something."""


class Written(NamedTuple):
    """A command that was carried out, what it changed, and who wanted it."""

    command: Command
    changes: list[Change]
    actor: str


class Log(Protocol):
    """Keeps entries, and one snapshot in place of the entries before it."""

    def append(self, entry: bytes, sync: bool) -> None:
        """Add an entry; with `sync` it is on disk on return."""

    def snapshot(self, blob: bytes) -> None:
        """From now on, recovery starts from this and the entries that follow."""


class Defaults(msgspec.Struct, frozen=True):
    """What an empty node starts with. The user's hash comes from auth.passwords."""

    user: User | None
    vhost: str = DEFAULT_VHOST
    configure: str = ALL_NAMES
    write: str = ALL_NAMES
    read: str = ALL_NAMES


class MetadataStore:
    """Reads go to `state`; writes go through `write`."""

    def __init__(self, state: State, log: Log) -> None:
        self.state = state
        self.listeners: list[Callable[[Change], None]] = []
        """Told of each change: those who keep live objects in step."""
        self.observers: list[Callable[[Written], None]] = []
        """Told of each command once the listeners are in step with it."""
        self.telling: Written | None = None
        """What listeners and observers are being told of."""
        self._log = log
        self._log_bytes = 0
        self._snapshot_bytes = 0
        self._actor = INTERNAL_USER
        self._untold: deque[tuple[Written, Callable[[], None] | None]] = deque()

    def write(
        self, command: Command, done: Callable[[], None] | None = None, sync: bool = True
    ) -> list[Change]:
        """Change the metadata; returns what changed.

        A listener may write too: its changes are told after those it is being told of. Nothing is
        forced to disk for changes that a restart would undo anyway.
        """
        before = self.state.next_queue_id
        command = self._numbered(command)
        changes = self.state.apply(command)
        if changes or self.state.next_queue_id != before:
            self._append(commands.encode(command), sync and any(map(self._outlives_restart, changes)))
        if self.telling is not None:
            self._untold.append((Written(command, changes, INTERNAL_USER), done))
        else:
            self._untold.append((Written(command, changes, self._actor), done))
            self._tell()
        return changes

    @contextmanager
    def acting_as(self, actor: str) -> Iterator[None]:
        """What is written meanwhile is somebody's doing."""
        before, self._actor = self._actor, actor
        try:
            yield
        finally:
            self._actor = before

    def _numbered(self, command: Command) -> Command:
        """Log a queue with its id: if an older entry is ever lost, the queues behind it must not be taken
        for one another."""
        if not isinstance(command, commands.PutQueue) or command.record.queue_id:
            return command
        before = self.state.queues.get(command.record.key)
        given = self.state.next_queue_id if before is None else before.queue_id
        record = msgspec.structs.replace(command.record, queue_id=given)
        return msgspec.structs.replace(command, record=record)

    def boot(self, entries: Iterable[bytes], defaults: Defaults) -> None:
        """Replay the log, drop what does not survive a restart, make the defaults if all is empty.

        Listeners hear nothing of it: they build themselves from the state that results.
        """
        replayed = 0
        for entry in entries:
            self.state.apply(commands.decode(entry))
            replayed += 1
        dropped = self.state.apply(commands.DropTransient())
        created = [self.state.apply(command) for command in self._birth(defaults)]
        if replayed or dropped or created:
            self._take_snapshot()

    def _birth(self, defaults: Defaults) -> list[Command]:
        if self.state.vhosts or self.state.users:
            return []
        vhost = Vhost(defaults.vhost, description=DEFAULT_VHOST_DESCRIPTION)
        born: list[Command] = [commands.PutVhost(vhost)]
        if defaults.user is not None:
            born.append(commands.PutUser(defaults.user))
            rights = (defaults.configure, defaults.write, defaults.read)
            born.append(commands.PutPermission(Permission(defaults.user.name, defaults.vhost, *rights)))
        return born

    def _append(self, entry: bytes, sync: bool) -> None:
        self._log.append(entry, sync)
        self._log_bytes += len(entry)
        if self._log_bytes > max(LOG_BYTES_MAX, self._snapshot_bytes):
            self._take_snapshot()

    def _take_snapshot(self) -> None:
        blob = self.state.snapshot()
        self._log.snapshot(blob)
        self._log_bytes = 0
        self._snapshot_bytes = len(blob)

    def _tell(self) -> None:
        try:
            while self._untold:
                self.telling, done = self._untold.popleft()
                for change in self.telling.changes:
                    for listener in self.listeners:
                        listener(change)
                for observer in self.observers:
                    observer(self.telling)
                if done is not None:
                    done()
        finally:
            self.telling = None

    def _outlives_restart(self, change: Change) -> bool:
        record = change.record
        if isinstance(record, Queue):
            return record.survives_restart
        if isinstance(record, Exchange):
            return record.durable
        if isinstance(record, Binding):
            return self._binding_outlives_restart(record)
        return True

    def _binding_outlives_restart(self, binding: Binding) -> bool:
        """An end that has just gone with the binding is judged by its own change."""
        source = self.state.exchanges.get((binding.vhost, binding.source))
        if source is not None and not source.durable:
            return False
        end = (binding.vhost, binding.destination)
        if binding.destination_kind == "queue":
            queue = self.state.queues.get(end)
            return queue is not None and queue.survives_restart
        exchange = self.state.exchanges.get(end)
        return exchange is not None and exchange.durable
