"""The store: what is agreed on comes back, what is transient does not, listeners hear in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import pytest

from mirrormq.cluster.bootstrap import new_cluster
from mirrormq.cluster.cluster_limits import DEFAULT_LIMITS, ClusterLimits
from mirrormq.cluster.member import Member
from mirrormq.consensus import Automatic, MemoryLog, Ready
from mirrormq.errors import ResourceError
from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.changes import Change, Put
from mirrormq.metadata.state import MetadataState
from mirrormq.metadata.store import (
    INTERNAL_USER,
    Defaults,
    MetadataStore,
    Unreadable,
    WriteResult,
    read_entry,
)

NAME = "one@localhost"
GUEST = r.User("guest", "hash", tags=["administrator"])
DEFAULTS = Defaults(GUEST)


class CountingLog(MemoryLog):
    """A log that can be opened again, and says what was forced to disk."""

    def __init__(self) -> None:
        super().__init__(new_cluster(NAME, lambda below: 0))
        self.synced: list[bool] = []
        self.snapshots = 0

    def save(self, ready: Ready) -> None:
        super().save(ready)
        if ready.entries:
            self.synced.append(ready.must_sync)
        self.snapshots += ready.snapshot is not None

    def reopen(self, defaults: Defaults = DEFAULTS, limits: ClusterLimits = DEFAULT_LIMITS) -> MetadataStore:
        store = Member(NAME, self, Automatic(), lambda below: 0, limits=limits).metadata
        store.boot(defaults)
        self.synced.clear()
        return store


def test_an_empty_node_gets_rabbitmqs_vhost_exchanges_and_user() -> None:
    state = CountingLog().reopen().state
    found = {(e.name, e.kind, e.durable, e.auto_delete, e.internal) for e in state.exchanges.values()}
    assert found == {
        ("", "direct", True, False, False),
        ("amq.direct", "direct", True, False, False),
        ("amq.fanout", "fanout", True, False, False),
        ("amq.headers", "headers", True, False, False),
        ("amq.match", "headers", True, False, False),
        ("amq.rabbitmq.trace", "topic", True, False, True),
        ("amq.topic", "topic", True, False, False),
    }
    assert state.vhosts == {"/": r.Vhost("/", description="Default virtual host")}
    assert state.users == {"guest": GUEST}
    assert state.permissions == {("guest", "/"): r.Permission("guest", "/", ".*", ".*", ".*")}


def test_a_node_that_has_users_gets_no_default_user_back() -> None:
    log = CountingLog()
    store = log.reopen()
    store.write(c.PutUser(r.User("admin")))
    store.write(c.DeleteUser("guest"))
    assert set(log.reopen().state.users) == {"admin"}


def test_durable_things_survive_a_restart_and_others_do_not() -> None:
    log = CountingLog()
    store = log.reopen()
    store.write(c.PutQueue(r.Queue("/", "durable")))
    store.write(c.PutQueue(r.Queue("/", "transient", durable=False)))
    store.write(c.PutQueue(r.Queue("/", "exclusive", exclusive=True)))
    store.write(c.PutExchange(r.Exchange("/", "gone", "fanout", durable=False)))
    for source, queue in (("amq.topic", "durable"), ("amq.topic", "transient"), ("gone", "durable")):
        store.write(c.PutBinding(r.Binding("/", source, "queue", queue, "k")))
    state = log.reopen().state
    assert set(state.queues) == {("/", "durable")}
    assert ("/", "gone") not in state.exchanges
    assert [(b.source, b.destination) for b in state.bindings.values()] == [("amq.topic", "durable")]
    assert state.next_queue_id == 4
    assert log.reopen().state.snapshot() == state.snapshot()


def test_only_what_outlives_a_restart_is_forced_to_disk() -> None:
    log = CountingLog()
    store = log.reopen()
    store.write(c.PutQueue(r.Queue("/", "transient", durable=False)))
    store.write(c.PutBinding(r.Binding("/", "amq.topic", "queue", "transient", "k")))
    store.write(c.DeleteQueue("/", "transient"))
    store.write(c.PutQueue(r.Queue("/", "durable")))
    store.write(c.PutBinding(r.Binding("/", "amq.topic", "queue", "durable", "k")))
    store.write(c.DeleteBinding("/", "amq.topic", "queue", "durable", "k"))
    store.write(c.DeleteQueue("/", "durable"))
    store.write(c.DeleteQueue("/", "durable"))
    store.write(c.PutQueue(r.Queue("/", "later")), sync=False)
    store.write(c.PutExchange(r.Exchange("/", "gone", "fanout", durable=False)))
    store.write(c.DeleteExchange("/", "gone"))
    assert log.synced == [False, False, False, True, True, True, True, False, False, False, False]


def test_a_listener_that_writes_gets_that_event_after_the_current_one() -> None:
    store = CountingLog().reopen()
    heard: list[str] = []

    def mirror_queue(change: Change) -> None:
        heard.append(change.record.name if isinstance(change.record, r.Queue) else "?")
        if isinstance(change, Put) and heard == ["first"]:
            store.write(c.PutQueue(r.Queue("/", "second")), lambda: heard.append("second done"))
            heard.append("written")

    store.listeners.append(mirror_queue)
    store.write(c.PutQueue(r.Queue("/", "first")), lambda: heard.append("first done"))
    assert heard == ["first", "written", "first done", "second", "second done"]
    assert [queue.queue_id for queue in store.state.queues.values()] == [1, 2]


def test_observers_get_the_acting_user_and_the_broker_names_its_listeners() -> None:
    store = CountingLog().reopen()
    heard: list[tuple[str, str, bool]] = []

    def mirror_queue(change: Change) -> None:
        if isinstance(change.record, r.Queue) and change.record.name == "first":
            store.write(c.PutQueue(r.Queue("/", "second")))

    def observe(written: WriteResult) -> None:
        assert isinstance(written.command, c.PutQueue)
        heard.append((written.command.record.name, written.actor, written.here))

    store.listeners.append(mirror_queue)
    store.observers.append(observe)
    with store.acting_as("anna"):
        store.write(c.PutQueue(r.Queue("/", "first")), lambda: store.write(c.PutQueue(r.Queue("/", "third"))))
    store.write(c.PutQueue(r.Queue("/", "fourth")))
    assert heard == [
        ("first", "anna", True),
        ("second", INTERNAL_USER, True),
        ("third", "anna", True),
        ("fourth", INTERNAL_USER, True),
    ]


def test_a_failing_listener_does_not_keep_events_from_other_listeners() -> None:
    store = CountingLog().reopen()
    heard: list[str] = []

    def fail(change: Change) -> None:
        heard.append("first")
        raise LookupError("a bug")

    store.listeners += [fail, lambda change: heard.append("second")]
    with pytest.raises(LookupError, match="a bug"):
        store.write(c.PutQueue(r.Queue("/", "q")), lambda: heard.append("done"))
    assert heard == ["first", "second", "done"], "what was written is in force"
    assert store.unsettled == 0
    store.listeners.remove(fail)
    store.write(c.PutQueue(r.Queue("/", "p")), lambda: heard.append("done"))
    assert heard[3:] == ["second", "done"]
    assert set(store.state.queues) == {("/", "q"), ("/", "p")}


def test_a_log_past_its_limit_becomes_a_snapshot() -> None:
    log = CountingLog()
    store = log.reopen(limits=ClusterLimits(log_bytes_max=1000))
    for number in range(200):
        store.write(c.PutQueue(r.Queue("/", f"q{number}")))
        assert sum(entry.size_bytes for entry in log.entries) < 5 * max(1000, len(log.snapshot().state))
    assert 2 < log.snapshots < 30
    assert len(log.reopen().state.queues) == 200


def test_a_name_that_is_not_text_survives() -> None:
    log = CountingLog()
    name = b"\xff\xc3(".decode("utf-8", "surrogateescape")
    store = log.reopen()
    with store.acting_as(name):
        store.write(c.PutQueue(r.Queue("/", name, arguments=b"\xff\x00")))
    for _ in range(2):
        queue = log.reopen().state.queues["/", name]
        assert queue.arguments == b"\xff\x00"


class SlowGroup:
    """A group of several nodes: what is proposed comes back when the test says so."""

    alone = False

    def __init__(self, room: int = 1000) -> None:
        self.room = room
        self.proposed_entries: list[bytes] = []
        self.wakes = 0
        self.postpones = False
        self.postponed = 0

    def propose(self, entry: bytes, sync: bool, otherwise: bytes | None = None) -> int | None:
        assert sync, "in a cluster everything is forced to disk"
        if len(self.proposed_entries) >= self.room:
            return None
        self.proposed_entries.append(entry)
        return len(self.proposed_entries) - 1

    def postpone(self) -> bool:
        self.postponed += 1
        return self.postpones

    def proposed(self) -> None:
        self.wakes += 1

    def wait_applied_on_all(self, callback: Callable[[], None]) -> None:
        callback()


def slow_store(room: int = 1000, **limits: int) -> tuple[MetadataStore, SlowGroup]:
    state, group = MetadataState(), SlowGroup(room)
    state.apply(c.PutVhost(r.Vhost("/")))
    return MetadataStore(state, group, **limits), group


def queues(*names: str) -> Iterator[c.PutQueue]:
    for name in names:
        yield c.PutQueue(r.Queue("/", name))


def test_in_a_cluster_done_comes_when_the_command_comes_back() -> None:
    store, group = slow_store()
    heard: list[str] = []
    for command in queues("a", "b"):
        store.write(command, partial(heard.append, command.record.name))
    store.written(store.last_written, lambda: heard.append("all"))
    assert (heard, store.unsettled, store.state.queues) == ([], 2, {})
    store.apply(group.proposed_entries[0], 0)
    assert heard == ["a"]
    store.apply(group.proposed_entries[1], 1)
    assert heard == ["a", "b", "all"]
    assert [queue.queue_id for queue in store.state.queues.values()] == [1, 2]
    store.written(store.last_written, lambda: heard.append("at once"))
    assert heard[-1] == "at once"


def test_grouped_writes_wait_for_the_end_of_the_turn_and_no_write_overtakes_them() -> None:
    store, group = slow_store()
    group.postpones = True
    for command in queues("a", "b"):
        store.write(command, grouped=True)
    assert (group.proposed_entries, group.postponed, store.unsettled) == ([], 2, 2)
    store.write(next(queues("c")))
    assert (len(group.proposed_entries), group.wakes) == (3, 1)
    names = [read_entry(entry)[1].record.name for entry in group.proposed_entries]  # type: ignore[union-attr]
    assert names == ["a", "b", "c"]
    group.postpones = False
    store.write(next(queues("d")), grouped=True)
    assert len(group.proposed_entries) == 4, "a group without turns takes it at once"


def test_another_nodes_command_is_applied_but_is_not_our_event() -> None:
    ours, group = slow_store()
    theirs, _ = slow_store()
    heard: list[tuple[str, bool]] = []
    theirs.observers.append(lambda written: heard.append((written.actor, written.here)))
    with ours.acting_as("anna"):
        ours.write(next(queues("q")))
    theirs.apply(group.proposed_entries[0], None)
    assert ("/", "q") in theirs.state.queues
    assert heard == [("anna", False)]


def test_commands_that_the_group_does_not_take_wait_in_order() -> None:
    store, group = slow_store(room=2)
    done: list[str] = []
    for command in queues(*"abcde"):
        store.write(command, partial(done.append, command.record.name))
    assert len(group.proposed_entries) == 2
    assert store.unsettled == 5
    group.room = 4
    store.proceed()
    assert len(group.proposed_entries) == 4
    group.room = 5
    store.proceed()
    for number, entry in enumerate(group.proposed_entries):
        store.apply(entry, number)
    assert done == list("abcde")
    assert not store.unsettled


def test_too_much_that_waits_is_refused_but_the_brokers_own_is_not() -> None:
    store, _ = slow_store(room=0, waiting_max=3)
    with store.acting_as("anna"):
        for command in queues("a", "b", "c"):
            store.write(command)
        with pytest.raises(ResourceError, match="waiting"):
            store.write(c.DeleteQueue("/", "a"))
    store.write(c.DeleteQueue("/", "a"))
    assert store.unsettled == 4


def test_a_command_that_is_too_large_is_refused() -> None:
    store, group = slow_store()
    with pytest.raises(ValueError, match="too large"):
        store.write(c.PutGlobalParameter(r.GlobalParameter("big", "x" * (5 << 20))))
    assert not group.proposed_entries


def test_an_unreadable_command_is_fatal() -> None:
    store, _ = slow_store()
    with pytest.raises(Unreadable):
        store.apply(b"\x92\xa4anna\xc4\x01x", None)


def test_a_snapshot_settles_what_is_in_it() -> None:
    store, group = slow_store()
    heard: list[str] = []
    for command in queues("a", "b"):
        store.write(command, partial(heard.append, command.record.name))
    store.written(1, lambda: heard.append("first mark"))
    other, _ = slow_store()
    other.apply(group.proposed_entries[0], None)
    store.restore(other.state.snapshot(), [0])
    assert heard == ["a", "first mark"]
    assert set(store.state.queues) == {("/", "a")}


def test_writes_of_one_turn_cost_one_sync_and_are_applied_in_order() -> None:
    log = CountingLog()
    store = log.reopen()
    done: list[str] = []
    with store.together():
        for command in queues(*"abc"):
            store.write(command, partial(done.append, command.record.name))
        assert not done
    assert log.synced == [True]
    assert done == list("abc")
    assert [queue.queue_id for queue in store.state.queues.values()] == [1, 2, 3]


def test_more_than_the_group_takes_at_once_can_be_written_together() -> None:
    log = CountingLog()
    store = log.reopen()
    with store.together():
        for number in range(3000):
            store.write(c.PutQueue(r.Queue("/", f"q{number}")))
    assert len(store.state.queues) == 3000
    assert sorted(store.state.queue_keys) == list(range(1, 3001))
    assert len(log.synced) < 10
