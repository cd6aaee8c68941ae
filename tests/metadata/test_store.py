"""The store: what is logged comes back, what does not survive a restart does not, listeners hear in order."""

from __future__ import annotations

import pytest

from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata import store as store_module
from mirrormq.metadata.changes import Change, Put
from mirrormq.metadata.state import State
from mirrormq.metadata.store import Defaults, MetadataStore

GUEST = r.User("guest", "hash", tags=["administrator"])
DEFAULTS = Defaults(GUEST)


class MemoryLog:
    """A log that remembers, and can be opened again."""

    def __init__(self) -> None:
        self.entries: list[bytes] = []
        self.synced: list[bool] = []
        self.blob: bytes | None = None
        self.snapshots = 0

    def append(self, entry: bytes, sync: bool) -> None:
        self.entries.append(entry)
        self.synced.append(sync)

    def snapshot(self, blob: bytes) -> None:
        self.blob = blob
        self.entries = []
        self.snapshots += 1

    def reopen(self, defaults: Defaults = DEFAULTS) -> MetadataStore:
        state = State.from_snapshot(self.blob) if self.blob else State()
        store = MetadataStore(state, self)
        entries, self.entries = self.entries, []
        store.boot(entries, defaults)
        return store


def test_an_empty_node_gets_rabbitmqs_vhost_exchanges_and_user() -> None:
    state = MemoryLog().reopen().state
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
    log = MemoryLog()
    store = log.reopen()
    store.write(c.PutUser(r.User("admin")))
    store.write(c.DeleteUser("guest"))
    assert set(log.reopen().state.users) == {"admin"}


def test_durable_things_survive_a_restart_and_others_do_not() -> None:
    log = MemoryLog()
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


def test_a_command_that_changes_nothing_is_not_logged_but_done() -> None:
    log = MemoryLog()
    store = log.reopen()
    done: list[str] = []
    assert store.write(c.DeleteQueue("/", "none"), lambda: done.append("done")) == []
    assert done == ["done"]
    assert log.entries == []


def test_only_what_outlives_a_restart_is_forced_to_disk() -> None:
    log = MemoryLog()
    store = log.reopen()
    store.write(c.PutQueue(r.Queue("/", "transient", durable=False)))
    store.write(c.PutBinding(r.Binding("/", "amq.topic", "queue", "transient", "k")))
    store.write(c.DeleteQueue("/", "transient"))
    store.write(c.PutQueue(r.Queue("/", "durable")))
    store.write(c.PutBinding(r.Binding("/", "amq.topic", "queue", "durable", "k")))
    store.write(c.DeleteQueue("/", "durable"))
    store.write(c.PutQueue(r.Queue("/", "later")), sync=False)
    assert log.synced == [False, False, False, True, True, True, False]


def test_a_listener_that_writes_hears_of_it_after_what_it_is_hearing() -> None:
    store = MemoryLog().reopen()
    heard: list[str] = []

    def mirror_queue(change: Change) -> None:
        heard.append(change.record.name if isinstance(change.record, r.Queue) else "?")
        if isinstance(change, Put) and heard == ["first"]:
            store.write(c.PutQueue(r.Queue("/", "second")), lambda: heard.append("second done"))
            heard.append("written")

    store.listeners.append(mirror_queue)
    store.write(c.PutQueue(r.Queue("/", "first")), lambda: heard.append("first done"))
    assert heard == ["first", "written", "first done", "second", "second done"]


def test_a_log_past_its_limit_becomes_a_snapshot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "LOG_BYTES_MAX", 1000)
    log = MemoryLog()
    store = log.reopen()
    for number in range(200):
        store.write(c.PutQueue(r.Queue("/", f"q{number}")))
        assert sum(map(len, log.entries)) <= max(1000, len(log.blob or b""))
    assert 2 < log.snapshots < 20
    assert len(log.reopen().state.queues) == 200


def test_a_name_that_is_not_text_survives() -> None:
    log = MemoryLog()
    name = b"\xff\xc3(".decode("utf-8", "surrogateescape")
    log.reopen().write(c.PutQueue(r.Queue("/", name, arguments=b"\xff\x00")))
    for _ in range(2):
        queue = log.reopen().state.queues["/", name]
        assert queue.arguments == b"\xff\x00"
