"""Federation without sockets: upstreams of policies, propagated bindings, headers, wanted links."""

from __future__ import annotations

from typing import Any

from mirrormq.bridges.federation_bindings import Place, upstream_bindings
from mirrormq.bridges.federation_headers import Origin, exchange_properties, queue_properties
from mirrormq.bridges.federation_links import FEDERATION, federated_exchange, link_name, link_parts, upstreams
from mirrormq.bridges.link_placement import LinkPlacement
from mirrormq.metadata import commands as c
from mirrormq.metadata.records import Binding, Exchange, Node, Parameter, Policy, Queue, Vhost
from mirrormq.metadata.state import MetadataState
from mirrormq.wire.fields import encode_table, plain, table_of
from mirrormq.wire.properties import BasicProperties, decode_properties, encode_properties

HERE, UPSTREAM = Place("c", "down"), Place("b", "up")
ORIGIN = Origin("amqp://b/up", "x", "y", "b", "up")


def state_with(*records: Any) -> MetadataState:
    state = MetadataState()
    state.apply(c.PutVhost(Vhost("/")))
    for record in records:
        match record:
            case Parameter():
                state.apply(c.PutParameter(record))
            case Policy():
                state.apply(c.PutPolicy(record))
            case Exchange():
                state.apply(c.PutExchange(record))
            case Queue():
                state.apply(c.PutQueue(record))
            case Node():
                state.apply(c.PutNode(record))
    return state


def upstream(name: str, **value: Any) -> Parameter:
    return Parameter("/", "federation-upstream", name, {"uri": "amqp://b", **value})


def policy(**definition: Any) -> Policy:
    given = {key.replace("_", "-"): each for key, each in definition.items()}
    return Policy("/", "p", "^fed", definition=given)


def test_policies_name_upstreams_in_three_ways() -> None:
    entries = [{"upstream": "u2", "max-hops": 5}, {"upstream": "gone"}]
    state = state_with(
        upstream("u1"), upstream("u2", exchange="y"),
        Parameter("/", "federation-upstream-set", "s", entries),
    )  # fmt: skip

    def names(**definition: Any) -> list[str]:
        given = {key.replace("_", "-"): each for key, each in definition.items()}
        return [each.name for each in upstreams(state, "/", given)]

    assert names(federation_upstream="u1") == ["u1"]
    assert names(federation_upstream="nosuch") == []
    assert names(federation_upstream_set="all") == ["u1", "u2"]
    assert names(federation_upstream_pattern="2$") == ["u2"]
    assert names(federation_upstream_set="s") == ["u2"], "unknown upstreams are ignored"
    assert names(federation_upstream_set="nosuch") == []
    (overridden,) = upstreams(state, "/", {"federation-upstream-set": "s"})
    assert (overridden.max_hops, overridden.exchange) == (5, "y")


def test_exchanges_and_queues_that_are_federated() -> None:
    internal = encode_table(table_of({"x-internal-purpose": "federation"}))[4:]
    state = state_with(
        upstream("u"), policy(federation_upstream="u"), Node("a", incarnation=1, running=True),
        Exchange("/", "fed.x", "topic"), Exchange("/", "fed.internal", "topic", internal=True),
        Exchange("/", "other", "topic"), Queue("/", "fed.q", node="a"),
        Queue("/", "fed.exclusive", exclusive=True, node="a"),
        Queue("/", "fed.purpose", arguments=internal, node="a"),
    )  # fmt: skip
    wanted = {(link.key[1], link_parts(link.key[2])): link.node for link in FEDERATION.wanted(state)}
    assert wanted == {
        ("federation-exchange", ("fed.x", "u")): "",
        ("federation-queue", ("fed.q", "u")): "a",
    }
    placement = LinkPlacement(state)
    placement.lead(True, 1)
    for command in placement.work():
        state.apply(command)
    assert {link.node for link in state.links.values()} == {"a"} and len(state.links) == 2
    key = ("/", "federation-exchange", link_name("fed.x", "u"))
    assert federated_exchange(state, key) is not None
    state.apply(c.DeletePolicy("/", "p"))
    assert federated_exchange(state, key) is None and not list(FEDERATION.wanted(state))


def bound(*bindings: Binding, max_hops: int = 2) -> list[tuple[str, dict[str, Any]]]:
    found = upstream_bindings(bindings, "down:x A", max_hops, HERE, UPSTREAM)
    return [(each.routing_key, plain(arguments)) for each, arguments in found.items()]


def binding(key: str, destination: str = "q", **arguments: Any) -> Binding:
    table = table_of({name.replace("_", "-"): each for name, each in arguments.items()})
    return Binding("down", "x", "queue", destination, key, encode_table(table)[4:])


ENTRY = {"cluster-name": "c", "vhost": "down", "exchange": "down:x A"}


def test_each_distinct_binding_is_made_once() -> None:
    found = bound(binding("k"), binding("k", "other queue"), binding("k", a="b"))
    assert found == [
        ("k", {"x-bound-from": [{**ENTRY, "hops": 2}]}),
        ("k", {"a": "b", "x-bound-from": [{**ENTRY, "hops": 2}]}),
    ]


def test_a_binding_travels_a_limited_number_of_links() -> None:
    before = {"cluster-name": "d", "vhost": "v", "exchange": "v:x A", "hops": 2}
    [(_, arguments)] = bound(binding("k", x_bound_from=[before]))
    assert arguments["x-bound-from"] == [{**ENTRY, "hops": 1}, before]
    assert bound(binding("k", x_bound_from=[{**before, "hops": 1}])) == []
    assert bound(binding("k"), max_hops=0) == []


def test_a_binding_never_returns() -> None:
    before = {"cluster-name": "b", "vhost": "up", "exchange": "up:x A", "hops": 5}
    assert bound(binding("k", x_bound_from=[before])) == []


def headers_of(encoded: bytes | None) -> dict[str, Any]:
    assert encoded is not None
    return plain(decode_properties(encoded, 0).headers or {})


def encoded_properties(headers: dict[str, Any], user_id: str | None = None) -> bytes:
    return encode_properties(BasicProperties(headers=table_of(headers), user_id=user_id))


def test_messages_over_an_exchange_link_carry_their_way_and_end_after_their_hops() -> None:
    first = exchange_properties(encoded_properties({"k": "v"}), ORIGIN, False, 1, HERE, trusted=False)
    entry = {
        "uri": "amqp://b/up", "exchange": "x", "redelivered": False, "cluster-name": "b", "vhost": "up",
        "upstream-exchange": "y",
    }  # fmt: skip
    assert headers_of(first) == {"k": "v", "x-received-from": [entry]}
    assert first is not None
    assert exchange_properties(first, ORIGIN, False, 1, HERE, trusted=False) is None, "hops are used up"
    second = exchange_properties(first, ORIGIN, True, 2, HERE, trusted=False)
    assert headers_of(second)["x-received-from"] == [{**entry, "redelivered": True}, entry]
    assert exchange_properties(first, ORIGIN, False, 9, ("b", "up"), trusted=False) is None, "was there"


def test_user_ids_are_removed_unless_trusted() -> None:
    given = encoded_properties({}, "anna")
    for trusted in (True, False):
        for changed in (
            exchange_properties(given, ORIGIN, False, 1, HERE, trusted),
            queue_properties(given, ORIGIN, False, "", "q", trusted),
        ):
            assert changed is not None
            assert (decode_properties(changed, 0).user_id is not None) == trusted


def test_messages_over_a_queue_link_count_their_visits() -> None:
    first = queue_properties(encoded_properties({"CC": ["x"]}), ORIGIN, False, "e", "k", trusted=False)
    visit = {"uri": "amqp://b/up", "queue": "y", "redelivered": False, "visit-count": 1}
    assert headers_of(first) == {
        "x-original-exchange": "e", "x-original-routing-key": "k", "x-original-cc": ["x"],
        "x-received-from": [visit],
    }  # fmt: skip
    elsewhere = queue_properties(first, ORIGIN._replace(uri="amqp://z"), False, "", "q", trusted=False)
    again = headers_of(queue_properties(elsewhere, ORIGIN, False, "", "q", trusted=False))
    assert [each["visit-count"] for each in again["x-received-from"]] == [2, 1]
    assert again["x-original-exchange"] == "e", "the first exchange stays"
