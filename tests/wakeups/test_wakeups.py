"""Every place that yields a turn, and proof that the event it waits for wakes it.

A *place* is a name in a file of the source: a call that puts work off, or a budget that ends it early.
`PLACES` lists all of them with the exchanges that pass through them. `test_the_list_is_complete` finds the
places in the source; a new one fails it until an exchange is named for it. Each exchange runs on real nodes
and sockets with a clock that advances only when nothing else can run (`idle_clock`). It may take the timers
that it states, and no other: a lost wake-up shows as the time of an unrelated timer.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import mirrormq
from mirrormq.broker.broker_limits import DEFAULT_LIMITS
from tests.wakeups import exchanges, limit_exchanges
from tests.wakeups.nodes import run

SOURCE = Path(mirrormq.__file__).parent

CALLS = {
    "after_replication", "awaits_flush", "defer", "hold", "pause_reading", "postpone", "report_later",
    "when_room", "when_safe", "when_writable",
}  # fmt: skip
"""Functions that put something off until an event."""

BUDGETS = {
    "batches_in_flight", "BYTES_PER_CREDIT", "COMMIT_POSTPONEMENTS", "CONGESTED_BYTES",
    "CONGESTED_MESSAGES", "credit_max",
    "dead_letters_under_way_max", "delivered_bytes_max", "deliveries_per_pump", "DELIVERY_BATCH",
    "delivery_batch_bytes", "expired_batch_max", "HEADER_BYTES_PER_EFFORT", "LEASED_AT_ONCE_MAX",
    "METADATA_WRITE_EFFORT",
    "POSTPONED_BYTES_MAX", "PUBLISHER_CREDIT", "PUBLISHER_REST_S", "publish_bytes_max",
    "publish_bytes_total_max", "publish_messages_max", "QUEUES_PER_TURN", "READ_BYTES_PER_EFFORT",
    "READS_IN_FLIGHT_MAX", "RELIEVED_BYTES",
    "REPLY_BYTES_MAX", "ring_behind_bytes", "ring_behind_operations", "SOCKET_OUTPUT_BYTES_MAX",
    "stream_bytes_max", "TURN_EFFORT", "WRITE_BYTES_PER_TURN",
}  # fmt: skip
"""Limits at which something stops in the middle and goes on later."""

PLACES: dict[tuple[str, str], tuple[exchanges.Exchange, ...]] = {
    ("cluster/coordinator.py", "QUEUES_PER_TURN"): (limit_exchanges.many_rings,),
    ("leases/lease_manager.py", "LEASED_AT_ONCE_MAX"): (limit_exchanges.large_lease,),
    ("leases/lease_manager.py", "when_safe"): (exchanges.lease,),
    ("leases/range_request_handler.py", "READS_IN_FLIGHT_MAX"): (limit_exchanges.many_reads,),
    ("leases/queue_backups.py", "when_safe"): (exchanges.restored_publish_ids,),
    ("metadata/store.py", "postpone"): (exchanges.declarations,),
    ("broker/dead_letters.py", "when_room"): (exchanges.remote_dead_letters,),
    ("channels/channel.py", "METADATA_WRITE_EFFORT"): (exchanges.declarations,),
    ("channels/channel.py", "report_later"): (exchanges.persistent_publishes,),
    ("channels/consumer.py", "DELIVERY_BATCH"): (exchanges.backlog,),
    ("connections/connection.py", "HEADER_BYTES_PER_EFFORT"): (exchanges.publishes_with_headers,),
    ("connections/channel_dispatch.py", "postpone"): (exchanges.behind_a_declaration,),
    ("connections/connection.py", "BYTES_PER_CREDIT"): (exchanges.congested_queue,),
    ("connections/connection.py", "METADATA_WRITE_EFFORT"): (exchanges.login,),
    ("connections/connection.py", "POSTPONED_BYTES_MAX"): (exchanges.behind_a_declaration,),
    ("connections/connection.py", "PUBLISHER_CREDIT"): (exchanges.congested_queue,),
    ("connections/connection.py", "REPLY_BYTES_MAX"): (exchanges.large_replies,),
    ("connections/connection.py", "TURN_EFFORT"): (exchanges.declarations, exchanges.small_methods),
    ("connections/connection.py", "hold"): (exchanges.behind_a_declaration, exchanges.late_mirrors),
    ("connections/connection.py", "when_room"): (exchanges.late_mirrors, exchanges.remote_publishes),
    ("connections/handshake.py", "hold"): (exchanges.login,),
    ("broker/outbox.py", "SOCKET_OUTPUT_BYTES_MAX"): (exchanges.large_backlog,),
    ("queues/dead_lettering.py", "dead_letters_under_way_max"): (exchanges.expiry,),
    ("queues/expiry.py", "expired_batch_max"): (exchanges.expiry,),
    ("queues/leased_pages.py", "LEASED_AT_ONCE_MAX"): (limit_exchanges.large_lease,),
    ("queues/queue.py", "CONGESTED_BYTES"): (exchanges.congested_queue,),
    ("queues/queue.py", "CONGESTED_MESSAGES"): (exchanges.congested_queue,),
    ("queues/queue.py", "deliveries_per_pump"): (exchanges.backlog,),
    ("queues/queue.py", "delivery_batch_bytes"): (exchanges.large_backlog,),
    ("queues/publish_intake.py", "awaits_flush"): (exchanges.persistent_publishes,),
    ("queues/publish_intake.py", "after_replication"): (exchanges.late_mirrors,),
    ("queues/queue.py", "defer"): (exchanges.gated_deliveries,),
    ("queues/queue.py", "awaits_flush"): (exchanges.persistent_publishes,),
    ("queues/queue.py", "when_room"): (exchanges.late_mirrors,),
    ("remote/publishes.py", "publish_bytes_max"): (exchanges.remote_publishes,),
    ("remote/publishes.py", "publish_messages_max"): (exchanges.remote_publishes,),
    ("remote/peer_session.py", "when_writable"): (exchanges.remote_gets, exchanges.remote_range_reads),
    ("remote/remote_consumer.py", "delivered_bytes_max"): (exchanges.remote_consumer,),
    ("remote/remote_consumer.py", "when_writable"): (exchanges.remote_consumer_of_a_full_stream,),
    ("remote/remote_queue.py", "publish_bytes_total_max"): (exchanges.remote_publishes,),
    ("remote/remote_queue.py", "when_room"): (exchanges.remote_publishes,),
    ("remote/remote_queue.py", "when_writable"): (exchanges.remote_publishes,),
    ("peers/stream.py", "stream_bytes_max"): (exchanges.remote_publishes,),
    ("remote/subscription.py", "credit_max"): (exchanges.remote_consumer,),
    ("remote/subscription.py", "delivered_bytes_max"): (exchanges.remote_consumer,),
    ("remote/subscription.py", "DELIVERY_BATCH"): (exchanges.remote_consumer,),
    ("replication/lag.py", "ring_behind_bytes"): (exchanges.late_mirrors,),
    ("replication/lag.py", "ring_behind_operations"): (exchanges.late_mirrors,),
    ("replication/mirror_sync.py", "batches_in_flight"): (limit_exchanges.synchronisation,),
    ("replication/synchronisation.py", "batches_in_flight"): (limit_exchanges.synchronisation,),
    ("replication/record_repair.py", "when_writable"): (limit_exchanges.damaged_message,),
    ("runtime/amqp_socket.py", "READ_BYTES_PER_EFFORT"): (exchanges.large_publishes,),
    ("runtime/amqp_socket.py", "SOCKET_OUTPUT_BYTES_MAX"): (exchanges.slow_reader,),
    ("runtime/amqp_socket.py", "pause_reading"): (exchanges.alarm, exchanges.congested_queue),
    ("runtime/commit_polls.py", "COMMIT_POSTPONEMENTS"): (exchanges.persistent_publishes,),
    ("runtime/client_sockets.py", "PUBLISHER_REST_S"): (exchanges.congested_queue,),
    ("runtime/large_reads.py", "TURN_EFFORT"): (exchanges.large_publishes,),
    ("runtime/peer_link.py", "CONGESTED_BYTES"): (exchanges.congested_link,),
    ("runtime/peer_link.py", "RELIEVED_BYTES"): (exchanges.congested_link,),
    ("runtime/peer_link.py", "WRITE_BYTES_PER_TURN"): (exchanges.congested_link,),
    ("runtime/turn_loop.py", "COMMIT_POSTPONEMENTS"): (exchanges.persistent_publishes,),
}

ON_PEER = {
    ("remote/peer_session.py", "hold"): "remembers messages that are out with consumers",
    ("remote/remote_consumer.py", "hold"): "the same",
    ("migration_io/broker_api.py", "REPLY_BYTES_MAX"): "a longer reply is an error",
    ("migration_io/haproxy_socket.py", "REPLY_BYTES_MAX"): "the same",
    ("migration_io/moving_link.py", "hold"): "keeps acknowledgements until the ledger file is on disk",
    (
        "runtime/http_connection.py",
        "pause_reading",
    ): "flow control of one HTTP request; its reader resumes",
}
"""Uses of the same names that put nothing off."""

EXCHANGES = sorted({one for used in PLACES.values() for one in used}, key=lambda one: one.__name__)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in CALLS:
            yield node.func.attr
        elif isinstance(node, ast.Attribute) and node.attr in BUDGETS:
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in BUDGETS:
            yield node.id


def _found() -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for path in SOURCE.rglob("*.py"):
        file = path.relative_to(SOURCE)
        if file.parts[0] not in ("simulator", "spark", "perf", "chaos", "cli", "testing"):
            found |= {(file.as_posix(), name) for name in _names(ast.parse(path.read_text()))}
    return {(file, name) for file, name in found if not file.endswith("limits.py")}


def test_the_list_is_complete() -> None:
    found = _found()
    assert found - PLACES.keys() - ON_PEER.keys() == set(), "name an exchange that passes through these"
    assert (PLACES.keys() | ON_PEER.keys()) - found == set(), "these places are gone"


@pytest.mark.parametrize("exchange", EXCHANGES, ids=lambda one: one.__name__)
def test_an_exchange_waits_for_no_timer_but_its_own(
    exchange: exchanges.Exchange, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, name, value in exchanges.SMALLER.get(exchange, ()):
        monkeypatch.setattr(module, name, value)
    limits = exchanges.LIMITS.get(exchange, DEFAULT_LIMITS)
    nodes = 2 if exchange in limit_exchanges.OF_TWO_NODES else exchanges.NODES.get(exchange, 1)
    run(exchange, nodes, tmp_path, monkeypatch, limits)
