"""State: commands are deterministic, snapshots are complete, cascades leave nothing dangling."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from mirrormq.metadata import commands as c
from mirrormq.metadata import records as r
from mirrormq.metadata.changes import Deleted, Put
from mirrormq.metadata.log_indexes import decided_at
from mirrormq.metadata.state import MetadataState

VHOSTS = st.sampled_from(["/", "v"])
NAMES = st.sampled_from(["a", "b", "bad\udcff", "é"])
USERS = st.sampled_from(["u", "w"])
ARGUMENTS = st.sampled_from([b"", b"\x01kS\x00\x00\x00\x01v"])
BOOLEANS = st.booleans()
KINDS = st.sampled_from(["queue", "exchange"])
JSON = st.sampled_from([1, "x\udc80", {"k": [1, None]}, {"é": 2.5}])

BINDINGS = st.builds(r.Binding, VHOSTS, NAMES, KINDS, NAMES, NAMES, ARGUMENTS)

COMMANDS = st.one_of(
    st.builds(c.PutVhost, st.builds(r.Vhost, VHOSTS, NAMES)),
    st.builds(c.DeleteVhost, VHOSTS),
    st.builds(c.PutUser, st.builds(r.User, USERS, st.just("hash"))),
    st.builds(c.DeleteUser, USERS),
    st.builds(c.PutPermission, st.builds(r.Permission, USERS, VHOSTS, NAMES, NAMES, NAMES)),
    st.builds(c.DeletePermission, USERS, VHOSTS),
    st.builds(c.PutTopicPermission, st.builds(r.TopicPermission, USERS, VHOSTS, NAMES, NAMES, NAMES)),
    st.builds(c.DeleteTopicPermission, USERS, VHOSTS, st.none() | NAMES),
    st.builds(
        c.PutExchange,
        st.builds(r.Exchange, VHOSTS, NAMES, st.just("direct"), BOOLEANS, BOOLEANS),
        BOOLEANS,
    ),
    st.builds(c.DeleteExchange, VHOSTS, NAMES),
    st.builds(
        c.PutQueue,
        st.builds(r.Queue, VHOSTS, NAMES, st.just(0), BOOLEANS, BOOLEANS, BOOLEANS, ARGUMENTS, USERS),
        BOOLEANS,
    ),
    st.builds(c.DeleteQueue, VHOSTS, NAMES, st.integers(0, 3)),
    st.builds(c.PutBinding, BINDINGS),
    st.builds(c.PutBinding, BINDINGS),
    BINDINGS.map(lambda binding: c.DeleteBinding(*binding.key)),
    st.builds(c.PutPolicy, st.builds(r.Policy, VHOSTS, NAMES, NAMES)),
    st.builds(c.DeletePolicy, VHOSTS, NAMES),
    st.builds(c.PutOperatorPolicy, st.builds(r.OperatorPolicy, VHOSTS, NAMES, NAMES)),
    st.builds(c.DeleteOperatorPolicy, VHOSTS, NAMES),
    st.builds(c.PutParameter, st.builds(r.Parameter, VHOSTS, NAMES, NAMES, JSON)),
    st.builds(c.DeleteParameter, VHOSTS, NAMES, NAMES),
    st.builds(c.PutGlobalParameter, st.builds(r.GlobalParameter, NAMES, JSON)),
    st.builds(c.DeleteGlobalParameter, NAMES),
    st.builds(c.DropTransient, st.none() | USERS),
)
HISTORIES = st.lists(COMMANDS, max_size=40).map(
    lambda rest: [c.PutVhost(r.Vhost("/")), c.PutUser(r.User("u")), *rest]
)


def records_of(state: MetadataState) -> dict[tuple[type, object], r.Record]:
    tables = (
        state.vhosts,
        state.users,
        state.permissions,
        state.topic_permissions,
        state.exchanges,
        state.queues,
        state.bindings,
        state.policies,
        state.operator_policies,
        state.parameters,
        state.global_parameters,
    )
    return {(type(record), key): record for table in tables for key, record in table.items()}


def assert_nothing_dangles(state: MetadataState) -> None:
    for record in records_of(state).values():
        if not isinstance(record, r.Vhost | r.User | r.GlobalParameter | r.Node):
            assert record.vhost in state.vhosts
        if isinstance(record, r.Permission | r.TopicPermission):
            assert record.user in state.users
        if isinstance(record, r.Binding):
            ends = state.queues if record.destination_kind == "queue" else state.exchanges
            assert (record.vhost, record.source) in state.exchanges
            assert (record.vhost, record.destination) in ends


def assert_indexes_agree(state: MetadataState) -> None:
    for vhost in ("/", "v"):
        in_vhost = {q.name: q for q in state.queues.values() if q.vhost == vhost}
        assert state.queues_of(vhost) == in_vhost
        exchanges = {e.name: e for e in state.exchanges.values() if e.vhost == vhost}
        assert state.exchanges_of(vhost) == exchanges
        for name in {*in_vhost, *exchanges}:
            bindings = state.bindings.items()
            assert state.bindings_from(vhost, name) == {
                k: b for k, b in bindings if (b.vhost, b.source) == (vhost, name)
            }
            for kind in ("queue", "exchange"):
                assert state.bindings_to(vhost, kind, name) == {
                    k: b
                    for k, b in bindings
                    if (b.vhost, b.destination_kind, b.destination) == (vhost, kind, name)
                }


@given(HISTORIES)
def test_no_history_leaves_anything_dangling(history: list[c.Command]) -> None:
    state = MetadataState()
    for command in history:
        state.apply(command)
        assert_nothing_dangles(state)
    assert_indexes_agree(state)


@given(HISTORIES)
def test_a_replayed_log_gives_the_same_state_and_the_same_changes(history: list[c.Command]) -> None:
    first, second = MetadataState(), MetadataState()
    for command in history:
        assert first.apply(command) == second.apply(c.decode(c.encode(command)))
    assert first.snapshot() == second.snapshot()


@given(HISTORIES, HISTORIES)
@settings(max_examples=50)
def test_a_restored_snapshot_goes_on_like_the_original(
    before: list[c.Command], after: list[c.Command]
) -> None:
    state = MetadataState()
    for command in before:
        state.apply(command)
    restored = MetadataState.from_snapshot(state.snapshot())
    assert records_of(restored) == records_of(state)
    assert_indexes_agree(restored)
    for command in after:
        assert restored.apply(command) == state.apply(command)
    assert restored.snapshot() == state.snapshot()


@given(HISTORIES)
def test_following_the_changes_gives_the_state(history: list[c.Command]) -> None:
    state, follower = MetadataState(), dict[tuple[type, object], r.Record]()
    for command in history:
        version = state.version
        changes = state.apply(command)
        assert (state.version > version) == bool(changes)
        for change in changes:
            key = (type(change.record), change.record.key)
            if isinstance(change, Put):
                assert follower.get(key) == change.before
                follower[key] = change.record
            else:
                assert follower.pop(key) == change.record
    assert follower == records_of(state)


@given(HISTORIES)
def test_a_queue_id_is_never_given_twice(history: list[c.Command]) -> None:
    state = MetadataState()
    given_ids: set[int] = set()
    for command in history:
        for change in state.apply(command):
            if isinstance(change, Put) and isinstance(change.record, r.Queue) and change.before is None:
                assert change.record.queue_id not in given_ids
                given_ids.add(change.record.queue_id)


def populated() -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(r.Vhost("/")))
    state.apply(c.PutQueue(r.Queue("/", "q")))
    state.apply(c.PutExchange(r.Exchange("/", "x", "fanout", auto_delete=True)))
    state.apply(c.PutExchange(r.Exchange("/", "y", "fanout", auto_delete=True)))
    state.apply(c.PutBinding(r.Binding("/", "y", "exchange", "x", "")))
    state.apply(c.PutBinding(r.Binding("/", "x", "queue", "q", "")))
    return state


def test_auto_delete_exchanges_fall_one_after_the_other() -> None:
    state = populated()
    gone = [change.record.key for change in state.apply(c.DeleteQueue("/", "q"))]
    assert gone == [
        ("/", "x", "queue", "q", "", b""),
        ("/", "y", "exchange", "x", "", b""),
        ("/", "y"),
        ("/", "x"),
        ("/", "q"),
    ]


def test_a_restart_is_no_reason_to_auto_delete_an_exchange() -> None:
    state = MetadataState()
    state.apply(c.PutVhost(r.Vhost("/")))
    state.apply(c.PutQueue(r.Queue("/", "q", durable=False)))
    state.apply(c.PutExchange(r.Exchange("/", "x", "fanout", auto_delete=True)))
    state.apply(c.PutBinding(r.Binding("/", "x", "queue", "q", "")))
    state.apply(c.DropTransient())
    assert ("/", "x") in state.exchanges
    assert not state.queues
    assert not state.bindings


def test_a_declaration_does_not_change_what_is_there() -> None:
    state = populated()
    assert state.apply(c.PutQueue(r.Queue("/", "q", durable=False))) == []
    assert state.apply(c.PutExchange(r.Exchange("/", "x", "topic"))) == []


def test_a_moved_queue_keeps_its_id() -> None:
    state = populated()
    (change,) = state.apply(c.PutQueue(r.Queue("/", "q", node="b"), if_absent=False))
    assert isinstance(change, Put)
    assert change.before == r.Queue("/", "q", queue_id=1, indexes=decided_at(0))
    assert change.record == r.Queue("/", "q", queue_id=1, node="b")


def test_a_queue_declared_anew_is_not_deleted_by_an_old_command() -> None:
    state = populated()
    state.apply(c.DeleteQueue("/", "q"))
    state.apply(c.PutQueue(r.Queue("/", "q")))
    assert state.apply(c.DeleteQueue("/", "q", queue_id=1)) == []
    (change,) = state.apply(c.DeleteQueue("/", "q", queue_id=2))
    assert isinstance(change, Deleted)


def test_access_and_policy_versions_move_only_with_what_they_guard() -> None:
    state = populated()
    access, policy = state.access_version, state.policy_version
    state.apply(c.PutQueue(r.Queue("/", "other")))
    assert (state.access_version, state.policy_version) == (access, policy)
    state.apply(c.PutUser(r.User("u")))
    state.apply(c.PutPolicy(r.Policy("/", "p", ".*")))
    assert state.access_version == access + 1
    assert state.policy_version == policy + 1
