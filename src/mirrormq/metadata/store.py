"""The metadata store: the state, the way its changes are agreed upon, and those who follow them.

`write` proposes a command to the *group*, the nodes that apply the same commands in the same order. When the
command comes back it is applied here, as on every other node; listeners are told what changed, and
then the one who wrote it hears `done`. In a group of one all of that has happened when `write` returns;
among several nodes it takes a while. Callers that wait for `done`, or with `written` for all they have
written, are right in both worlds.

What is promised of order: the commands that one node writes are applied in the order in which it wrote
them; listeners and observers are told of one command after the other. A listener may write too: that
comes after what it is being told of.

Commands do not say whose they are: that is nothing to apply, only to tell. Whoever acts for somebody
writes under `acting_as`; any other write is the broker's own, and so is what a listener writes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import msgspec

from mirrormq.errors import DamageError, ResourceError
from mirrormq.metadata import commands, metadata_encoding, state_diff
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import Command
from mirrormq.metadata.defaults import DEFAULT_VHOST, DEFAULT_VHOST_DESCRIPTION
from mirrormq.metadata.durability import outlives_restart
from mirrormq.metadata.records import Permission, User, Vhost
from mirrormq.metadata.state import MetadataState

COMMAND_BYTES_MAX = 4 * 1024 * 1024
"""One command as a log entry: far more than a queue with the largest arguments that fit into a frame, and
half of what the group takes as one proposal."""

WAITING_MAX = 100_000
"""Writes of clients and operators that wait for the group to take them, while it has no leader or enough
to do. Each connection waits for its own, so it takes an import of definitions to get here."""

ALL_NAMES = ".*"

INTERNAL_USER = "rmq-internal"
"""The name that RabbitMQ gives to the broker where it tells who did something."""


class Unreadable(DamageError):
    """Something was agreed upon that this node cannot apply: it stops rather than differ from the rest."""


class WriteResult(NamedTuple):
    """A command that was carried out, what it changed, and who wanted it."""

    command: Command
    changes: list[Change]
    actor: str
    here: bool = True
    """Was it written on this node? Only there it is anybody's event."""


class ReplicationGroup(Protocol):
    """This node's way to all the nodes that share the metadata."""

    @property
    def alone(self) -> bool:
        """Nobody else is in it: what is proposed is applied when `proposed` returns."""

    def propose(self, entry: bytes, sync: bool, otherwise: bytes | None = None) -> int | None:
        """Take an entry; `MetadataStore.apply` gets the number given here back with it, if it was proposed
        by this node. None: not now, and `MetadataStore.proceed` is called when it may be tried again.
        Without `sync` a group of one need not force it to disk. With `otherwise` the entry is a leader's: if
        this node does not lead (any more), that is proposed in its place."""

    def proposed(self) -> None:
        """That was all for now."""

    def wait_applied_on_all(self, callback: Callable[[], None]) -> None:
        """Call back when every node that is there has applied what this one has."""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """A command on its way, with the one who wants it."""

    actor: str
    command: bytes


class _Write(msgspec.Struct):
    number: int
    command: Command
    actor: str
    done: Callable[[], None] | None
    sync: bool
    leading: bool = False


class Defaults(msgspec.Struct, frozen=True):
    """What an empty cluster starts with. The user's hash comes from auth.passwords."""

    user: User | None
    vhost: str = DEFAULT_VHOST
    configure: str = ALL_NAMES
    write: str = ALL_NAMES
    read: str = ALL_NAMES


class MetadataStore:
    """Reads go to `state`; writes go through `write`."""

    def __init__(self, state: MetadataState, group: ReplicationGroup) -> None:
        self.state = state
        self.listeners: list[Callable[[Change], None]] = []
        """Told of each change: those who keep live objects in step."""
        self.observers: list[Callable[[WriteResult], None]] = []
        """Told of each command once the listeners are in step with it."""
        self.current_write: WriteResult | None = None
        """What listeners and observers are being told of."""
        self.last_written = 0
        """The number of this node's last write: a mark for `written`."""
        self._group = group
        self._actor = INTERNAL_USER
        self._notifying_listeners = False
        self._attentive = False
        """Somebody is being told something: what they write waits."""
        self._proceeding = False
        self._collecting = 0
        self._waiting: deque[_Write] = deque()
        self._under_way: dict[int, _Write] = {}
        """What the group has taken, by its number for it."""
        self._marks: list[tuple[int, Callable[[], None]]] = []

    # -- writing --------------------------------------------------------------------------------

    def write(
        self, command: Command, done: Callable[[], None] | None = None, sync: bool = True, *,
        leading: bool = False,
    ) -> None:  # fmt: skip
        """Change the metadata. Nothing is forced to disk for changes that a restart would undo anyway. What
        is written as `leading` is forgotten if another node leads before it is agreed upon."""
        actor = INTERNAL_USER if self._notifying_listeners else self._actor
        if actor != INTERNAL_USER and len(self._waiting) >= WAITING_MAX:
            raise ResourceError("too many changes of metadata are waiting for the cluster")
        if len(commands.checked(command)) > COMMAND_BYTES_MAX:
            raise ValueError("it is too large to be kept as metadata")
        self.last_written += 1
        self._waiting.append(_Write(self.last_written, command, actor, done, sync, leading))
        self.proceed()

    def written(self, mark: int, callback: Callable[[], None]) -> None:
        """Call back when all that this node wrote up to a mark (`last_written`) is applied here."""
        if self._settled >= mark:
            callback()
        else:
            self._marks.append((mark, callback))

    def wait_applied_on_all(self, callback: Callable[[], None]) -> None:
        """Call back when what is in force here is so on every node that is there: a client that is told so
        may tell others."""
        self._group.wait_applied_on_all(callback)

    @property
    def unsettled(self) -> int:
        """How many of this node's writes are not applied yet."""
        return len(self._under_way) + len(self._waiting)

    @property
    def _settled(self) -> int:
        """The last of our writes that is applied, and with it all before; the group keeps our order."""
        oldest = next(iter(self._under_way.values()), self._waiting[0] if self._waiting else None)
        return self.last_written if oldest is None else oldest.number - 1

    @contextmanager
    def acting_as(self, actor: str) -> Iterator[None]:
        """What is written meanwhile is somebody's doing."""
        before, self._actor = self._actor, actor
        try:
            yield
        finally:
            self._actor = before

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is written meanwhile is handed over at the end, with as few syncs as possible. A node on its
        own that crashes has all of it or nothing, as long as the group takes it at once."""
        self._collecting += 1
        try:
            yield
        finally:
            self._collecting -= 1
            self.proceed()

    def proceed(self) -> None:
        """Hand over what waits, as far as the group takes it."""
        if self._proceeding or self._attentive or self._collecting:
            return
        self._proceeding = True
        try:
            while self._waiting and self._hand_over(self._waiting[0]):
                while self._waiting and self._hand_over(self._waiting[0]):
                    pass
                self._group.proposed()
        finally:
            self._proceeding = False

    def _hand_over(self, write: _Write) -> bool:
        sync = True
        if self._group.alone:
            write.command = self._numbered(write.command)
            sync = write.sync and outlives_restart(self.state, write.command)
        entry = metadata_encoding.encode(_Entry(write.actor, commands.encode(write.command)))
        number = self._group.propose(entry, sync, _NOTHING if write.leading else None)
        if number is None:
            return False
        self._under_way[number] = write
        self._waiting.popleft()
        return True

    def _numbered(self, command: Command) -> Command:
        """Log a queue with its id, where nobody else can give it meanwhile: if an older entry is ever lost,
        the queues behind it must not be taken for one another."""
        if not isinstance(command, commands.PutQueue) or command.record.queue_id:
            return command
        before = self.state.queues.get(command.record.key)
        given = self.state.next_queue_id if before is None else before.queue_id
        record = msgspec.structs.replace(command.record, queue_id=given)
        return msgspec.structs.replace(command, record=record)

    def boot(self, defaults: Defaults) -> None:
        """What the first node of a cluster does when it starts: nothing is left of what does not survive a
        restart, and a state without vhosts and users gets the defaults."""
        self.write(commands.DropTransient(), sync=False)
        if self.state.vhosts or self.state.users:
            return
        with self.together():
            self.write(commands.PutVhost(Vhost(defaults.vhost, description=DEFAULT_VHOST_DESCRIPTION)))
            if defaults.user is not None:
                self.write(commands.PutUser(defaults.user))
                rights = (defaults.configure, defaults.write, defaults.read)
                self.write(commands.PutPermission(Permission(defaults.user.name, defaults.vhost, *rights)))

    # -- what the group tells ---------------------------------------------------------------------

    def renumber(self, renumbered: Mapping[int, int]) -> None:
        """The group has given other numbers to what it has taken."""
        self._under_way = {renumbered.get(number, number): write for number, write in self._under_way.items()}

    def apply(self, entry: bytes, number: int | None) -> None:
        """An entry is agreed upon. `number` is what `propose` gave it, None if another node proposed it.

        All listeners hear of it even if one of them fails, and whoever wrote the command hears that it is in
        force, as it is; the first failure is raised afterwards.
        """
        actor, command = read_entry(entry)
        write = None if number is None else self._under_way.pop(number, None)
        changes = self.state.apply(command)
        try:
            self._tell(WriteResult(command, changes, actor, write is not None))
        finally:
            self._settle([] if write is None else [write])

    def restore(self, blob: bytes, settled: list[int]) -> None:
        """The whole state is replaced; `settled` are the numbers of our own proposals that are in it.

        Listeners are led there change by change, each of them applied when they are told.
        """
        writes = [self._under_way.pop(number) for number in settled if number in self._under_way]
        self._notifying_listeners = True
        try:
            with self._attention() as attempt:
                for change in state_diff.changes_to(self.state, blob):
                    for listener in tuple(self.listeners):
                        attempt(listener, change)
        finally:
            self._notifying_listeners = False
            self._settle(writes)

    def forget(self) -> None:
        """The node leaves its cluster: what waits to be written never will be."""
        self._waiting.clear()
        self._under_way.clear()
        self._marks.clear()

    def _tell(self, written: WriteResult) -> None:
        self.current_write, self._notifying_listeners = written, True
        try:
            with self._attention() as attempt:
                for change in written.changes:
                    for listener in tuple(self.listeners):
                        attempt(listener, change)
                for observer in tuple(self.observers):
                    attempt(observer, written)
        finally:
            self.current_write, self._notifying_listeners = None, False

    def _settle(self, writes: list[_Write]) -> None:
        """Tell those who waited."""
        settled = self._settled
        reached = [callback for mark, callback in self._marks if mark <= settled]
        self._marks = [pair for pair in self._marks if pair[0] > settled]
        with self._attention() as attempt:
            for write in writes:
                if write.done is not None:
                    attempt(write.done)
            for callback in reached:
                attempt(callback)

    @contextmanager
    def _attention(self) -> Iterator[Callable[..., None]]:
        """While others are told: nothing is handed over, and whoever fails does not keep the rest from
        hearing. The first failure is raised at the end."""
        failures: list[Exception] = []

        def attempt(call: Callable[..., None], *arguments: object) -> None:
            try:
                call(*arguments)
            except Exception as error:
                failures.append(error)

        self._attentive = True
        try:
            yield attempt
        finally:
            self._attentive = False
        if failures:
            raise failures[0]


_decoder = msgspec.msgpack.Decoder(_Entry)


def read_entry(entry: bytes) -> tuple[str, Command]:
    """Whose command an entry of the log is, and which."""
    try:
        read = metadata_encoding.decode(entry, _decoder, _Entry)
        return read.actor, commands.decode(read.command)
    except msgspec.DecodeError as error:
        raise Unreadable(f"this node cannot read what the cluster has agreed on: {error}") from None


_NOTHING = metadata_encoding.encode(_Entry(INTERNAL_USER, commands.encode(commands.ChangeViews([]))))
"""In place of what only a leader may decide, when this node is none any more."""
