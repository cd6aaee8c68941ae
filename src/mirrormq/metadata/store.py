"""Metadata store: the state, the replication of its changes, and the listeners that follow them.

`write` proposes a command to the *group*: the nodes that apply the same commands in the same order. Every
node applies the command when the group has committed it. The store notifies its listeners of the changes,
and then calls `done` of the writer. In a group of one node all of that has happened when `write` returns;
among several nodes it takes a while. A caller that waits for `done`, or with `written` for all its writes,
is correct in both cases.

Order: the commands of one node are applied in the order in which it wrote them. Listeners and observers are
notified of one command after the other. A listener may write, too: its command follows the one that it is
notified of.

Commands do not name their author, because applying them does not depend on it; only events and logs do. A
caller that acts for a user writes under `acting_as`. All other writes, and those of listeners, are the
broker's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple, Protocol

import msgspec

from mirrormq.errors import DamageError, ResourceError
from mirrormq.metadata import command_versions, commands, metadata_encoding, state_diff
from mirrormq.metadata.changes import Change
from mirrormq.metadata.commands import Command
from mirrormq.metadata.defaults import DEFAULT_VHOST, DEFAULT_VHOST_DESCRIPTION
from mirrormq.metadata.durability import outlives_restart
from mirrormq.metadata.records import Permission, User, Vhost
from mirrormq.metadata.state import MetadataState

COMMAND_BYTES_MAX = 4 * 1024 * 1024
"""Size limit of one command: far more than a queue with the largest arguments that fit into a frame, and half
of the group's limit for one proposal."""

WAITING_MAX = 100_000
"""Writes of clients and operators that wait while the group has no leader or is busy. Each connection waits
for its own write, so only an import of definitions gets here."""

ALL_NAMES = ".*"

INTERNAL_USER = "rmq-internal"
"""Name that RabbitMQ gives to the broker as the author of a change."""


class Unreadable(DamageError):
    """Committed entry that this node cannot apply. The node stops rather than diverge from the cluster."""


class WriteResult(NamedTuple):
    """Applied command, its changes, and the user who wrote it."""

    command: Command
    changes: list[Change]
    actor: str
    here: bool = True
    """Whether this node wrote the command. Only that node emits events for it."""


class ReplicationGroup(Protocol):
    """Interface to the nodes that share the metadata."""

    @property
    def alone(self) -> bool:
        """Return whether this node is the only member. A proposed entry is then applied when `proposed`
        returns."""

    def propose(self, entry: bytes, sync: bool, otherwise: bytes | None = None) -> int | None:
        """Propose an entry and return its number, which `MetadataStore.apply` receives with the entry.

        None means that the group cannot accept it now; it calls `MetadataStore.proceed` when the store may
        retry. Without `sync`, a group of one need not force the entry to disk. An entry with `otherwise` is a
        leader's decision: `otherwise` is proposed in its place if this node does not lead.
        """

    def postpone(self) -> bool:
        """Call `MetadataStore.proceed` at the end of the turn; return False if the group cannot do that."""

    def proposed(self) -> None:
        """End a batch of `propose` calls."""

    def wait_applied_on_all(self, callback: Callable[[], None]) -> None:
        """Call `callback` when every connected node has applied this node's last applied index."""


class _Entry(msgspec.Struct, frozen=True, array_like=True):
    """Command in the log, with the user who wrote it."""

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
    """Initial contents of an empty cluster. The user's hash comes from auth.passwords."""

    user: User | None
    vhost: str = DEFAULT_VHOST
    configure: str = ALL_NAMES
    write: str = ALL_NAMES
    read: str = ALL_NAMES


class MetadataStore:
    """Metadata of one node. Reads use `state`; writes go through `write`."""

    def __init__(self, state: MetadataState, group: ReplicationGroup, waiting_max: int = WAITING_MAX) -> None:
        self.state = state
        self._waiting_max = waiting_max
        self.listeners: list[Callable[[Change], None]] = []
        """Called with each change, to keep live objects in step with the metadata."""
        self.observers: list[Callable[[WriteResult], None]] = []
        """Called with each command after all listeners have processed it."""
        self.current_write: WriteResult | None = None
        """Write that listeners and observers are being notified of."""
        self.last_written = 0
        """Number of this node's last write: a mark for `written`."""
        self._group = group
        self._actor = INTERNAL_USER
        self._notifying_listeners = False
        self._notifying = False
        """Callbacks are running. Their writes wait until all of them have returned."""
        self._proceeding = False
        self._collecting = 0
        self._waiting: deque[_Write] = deque()
        self._under_way: dict[int, _Write] = {}
        """Proposed writes, by the number that the group gave them."""
        self._marks: list[tuple[int, Callable[[], None]]] = []

    # -- writing --------------------------------------------------------------------------------

    def write(
        self, command: Command, done: Callable[[], None] | None = None, sync: bool = True, *,
        leading: bool = False, grouped: bool = False,
    ) -> None:  # fmt: skip
        """Change the metadata.

        The group does not force to disk what a restart undoes anyway. A write with `leading` is dropped if
        another node becomes leader before it is committed. A command that a member does not know raises
        MembersTooOld. A `grouped` write shares one disk write with all others of its turn; `done` is then
        called later.
        """
        actor = INTERNAL_USER if self._notifying_listeners else self._actor
        if actor != INTERNAL_USER and len(self._waiting) >= self._waiting_max:
            raise ResourceError("too many metadata changes are waiting for the cluster; retry later")
        command_versions.check(self.state, command)
        if len(commands.checked(command)) > COMMAND_BYTES_MAX:
            raise ValueError(f"the command is too large: metadata takes at most {COMMAND_BYTES_MAX} bytes")
        self.last_written += 1
        self._waiting.append(_Write(self.last_written, command, actor, done, sync, leading))
        if not (grouped and self._group.postpone()):
            self.proceed()

    def written(self, mark: int, callback: Callable[[], None]) -> None:
        """Call `callback` when all writes of this node up to a mark (`last_written`) are applied here."""
        if self._settled >= mark:
            callback()
        else:
            self._marks.append((mark, callback))

    def wait_applied_on_all(self, callback: Callable[[], None]) -> None:
        """Call `callback` when every connected node has applied this node's last applied index.

        A client that is answered then may use another node and finds its change there.
        """
        self._group.wait_applied_on_all(callback)

    @property
    def unsettled(self) -> int:
        """Number of this node's writes that are not applied yet."""
        return len(self._under_way) + len(self._waiting)

    @property
    def _settled(self) -> int:
        """Last write of this node that is applied together with all before it; the group keeps their
        order."""
        oldest = next(iter(self._under_way.values()), self._waiting[0] if self._waiting else None)
        return self.last_written if oldest is None else oldest.number - 1

    @contextmanager
    def acting_as(self, actor: str) -> Iterator[None]:
        """Attribute writes within the context to a user."""
        before, self._actor = self._actor, actor
        try:
            yield
        finally:
            self._actor = before

    @contextmanager
    def together(self) -> Iterator[None]:
        """Propose all writes within the context at its end, with as few syncs as possible.

        A single node that crashes has all of them or none, if the group accepts them at once.
        """
        self._collecting += 1
        try:
            yield
        finally:
            self._collecting -= 1
            self.proceed()

    def proceed(self) -> None:
        """Propose waiting writes until the group accepts no more."""
        if self._proceeding or self._notifying or self._collecting:
            return
        self._proceeding = True
        try:
            # Propose all that waits, then sync once. In a group of one `proposed` applies the entries, and
            # their listeners may write again.
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
        """Assign the queue id before the command is logged, if this node is alone and no other can assign it.

        If an older entry is ever lost, queues in later entries must keep their ids.
        """
        if not isinstance(command, commands.PutQueue) or command.record.queue_id:
            return command
        before = self.state.queues.get(command.record.key)
        given = self.state.next_queue_id if before is None else before.queue_id
        record = msgspec.structs.replace(command.record, queue_id=given)
        return msgspec.structs.replace(command, record=record)

    def boot(self, defaults: Defaults) -> None:
        """Initialise the metadata when the first node of a cluster starts: drop transient objects, and create
        the defaults if no vhost and no user exists."""
        self.write(commands.DropTransient(), sync=False)
        if self.state.vhosts or self.state.users:
            return
        with self.together():
            self.write(commands.PutVhost(Vhost(defaults.vhost, description=DEFAULT_VHOST_DESCRIPTION)))
            if defaults.user is not None:
                self.write(commands.PutUser(defaults.user))
                rights = (defaults.configure, defaults.write, defaults.read)
                self.write(commands.PutPermission(Permission(defaults.user.name, defaults.vhost, *rights)))

    # -- callbacks of the group -------------------------------------------------------------------

    def renumber(self, renumbered: Mapping[int, int]) -> None:
        """Replace the numbers of proposed writes by those that the group gave them instead."""
        self._under_way = {renumbered.get(number, number): write for number, write in self._under_way.items()}

    def apply(self, entry: bytes, number: int | None, log_index: int = 0) -> None:
        """Apply a committed entry. `number` is what `propose` returned, None if another node proposed it.

        All listeners are notified even if one of them fails, and so is the writer of the command, because the
        command is in force. The first failure is raised afterwards.
        """
        actor, command = read_entry(entry)
        write = None if number is None else self._under_way.pop(number, None)
        changes = self.state.apply(command, log_index)
        try:
            self._notify(WriteResult(command, changes, actor, write is not None))
        finally:
            self._settle([] if write is None else [write])

    def restore(self, blob: bytes, settled: list[int]) -> None:
        """Replace the whole state; `settled` are the numbers of this node's proposals that are in it.

        Listeners are notified change by change, each of them applied at that time.
        """
        writes = [self._under_way.pop(number) for number in settled if number in self._under_way]
        self._notifying_listeners = True
        try:
            with self._notification() as attempt:
                for change in state_diff.changes_to(self.state, blob):
                    for listener in tuple(self.listeners):
                        attempt(listener, change)
        finally:
            self._notifying_listeners = False
            self._settle(writes)

    def forget(self) -> None:
        """Drop all pending writes, because the node leaves its cluster."""
        self._waiting.clear()
        self._under_way.clear()
        self._marks.clear()

    def _notify(self, written: WriteResult) -> None:
        self.current_write, self._notifying_listeners = written, True
        try:
            with self._notification() as attempt:
                for change in written.changes:
                    for listener in tuple(self.listeners):
                        attempt(listener, change)
                for observer in tuple(self.observers):
                    attempt(observer, written)
        finally:
            self.current_write, self._notifying_listeners = None, False

    def _settle(self, writes: list[_Write]) -> None:
        """Call the callbacks of applied writes and of marks that are reached."""
        settled = self._settled
        reached = [callback for mark, callback in self._marks if mark <= settled]
        self._marks = [pair for pair in self._marks if pair[0] > settled]
        with self._notification() as attempt:
            for write in writes:
                if write.done is not None:
                    attempt(write.done)
            for callback in reached:
                attempt(callback)

    @contextmanager
    def _notification(self) -> Iterator[Callable[..., None]]:
        """Run callbacks: no write is proposed meanwhile, and a failing callback does not stop the others. The
        first failure is raised at the end."""
        failures: list[Exception] = []

        def attempt(call: Callable[..., None], *arguments: object) -> None:
            try:
                call(*arguments)
            except Exception as error:
                failures.append(error)

        self._notifying = True
        try:
            yield attempt
        finally:
            self._notifying = False
        if failures:
            raise failures[0]


_decoder = msgspec.msgpack.Decoder(_Entry)


def read_entry(entry: bytes) -> tuple[str, Command]:
    """Return the author and the command of a log entry."""
    try:
        read = metadata_encoding.decode(entry, _decoder, _Entry)
        return read.actor, commands.decode(read.command)
    except msgspec.DecodeError as error:
        raise Unreadable(
            f"cannot decode a committed metadata entry: {error}; upgrade this node to the cluster's version"
        ) from None


_NOTHING = metadata_encoding.encode(_Entry(INTERNAL_USER, commands.encode(commands.ChangeViews([]))))
"""Replacement of a leader's decision that this node may no longer make."""
