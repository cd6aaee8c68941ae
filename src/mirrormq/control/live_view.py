"""Live objects of the broker as rows of plain values, under rabbitmqctl's column names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, cast

from mirrormq.connections.open_connections import open_channels, open_connections
from mirrormq.control.argument_tables import typed_arguments, typed_table
from mirrormq.control.memory_breakdown import memory_parts
from mirrormq.control.operator_queues import declaration
from mirrormq.control.queue_info import queue_facts
from mirrormq.metadata.commands import PutQueue
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.store import INTERNAL_USER
from mirrormq.replication.ring_status import is_mirrored, synchronising, untrusted
from mirrormq.wire.fields import decode_table

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker
    from mirrormq.channels.channel import Channel
    from mirrormq.cluster.orphan_restorer import OrphanRestorer
    from mirrormq.connections.connection import Connection
    from mirrormq.metadata import records
    from mirrormq.queues.consumer_turns import QueueConsumer
    from mirrormq.queues.queue import Queue

PROTOCOL = "{0,9,1}"


class LiveView:
    """Implementation of `control.node_interface.LiveObjects` over a Broker."""

    def __init__(
        self,
        broker: Broker,
        orphans: OrphanRestorer | None = None,
        links: Callable[[], list[dict[str, Any]]] = list,
    ) -> None:
        self._broker = broker
        self.links = links
        self._orphans = orphans
        self._policies = PolicyMatcher(broker.metadata.state)
        self._pids = broker.pids

    # -- queues ---------------------------------------------------------------------------------

    def queues(self, vhost: str) -> list[dict[str, Any]]:
        return [self._queue_row(record, self._local(record)) for record in self._records(vhost)]

    def local_queues(self, vhost: str) -> Iterator[dict[str, Any]]:
        for record in self._records(vhost):
            queue = self._local(record)
            if queue is not None:
                yield self._queue_row(record, queue)

    def queue(self, vhost: str, name: str) -> dict[str, Any] | None:
        record = self._broker.metadata.state.queues.get((vhost, name))
        return None if record is None else self._queue_row(record, self._local(record))

    def _records(self, vhost: str) -> list[records.Queue]:
        return list(self._broker.metadata.state.queues_of(vhost).values())

    def _local(self, record: records.Queue) -> Queue | None:
        """Return the queue object if this node is its master."""
        if record.ring.master != self._broker.settings.name:
            return None
        vhost = self._broker.vhosts.get(record.vhost)
        return vhost.local_queue(record.name) if vhost is not None else None

    def _queue_row(self, record: records.Queue, queue: Queue | None) -> dict[str, Any]:
        declared = {
            "name": record.name,
            "durable": record.durable,
            "auto_delete": record.auto_delete,
            "exclusive": record.exclusive,
            "arguments": typed_arguments(record.arguments),
            "policy": self._policies.effective(record.vhost, record.name, "queues").policy or "",
            "pid": self._pids.of_queue(record),
            "type": "classic",
        }
        declared |= self._mirrors(record)
        if queue is None:
            return {**declared, "state": "down", "messages": "", "messages_ready": 0, "consumers": 0}
        synchronised = synchronising(self._broker, record)
        state = "running" if synchronised is None else f"{{syncing, {synchronised}}}"
        return {**declared, **self._queue_state(queue), "state": state}

    def critical_queues(self) -> list[dict[str, Any]]:
        me = self._broker.settings.name
        return [
            {
                "name": record.name,
                "readable_name": f"queue '{record.name}' in vhost '{record.vhost}'",
                "type": "classic",
                "virtual_host": record.vhost,
            }
            for record in self._broker.metadata.state.queues.values()
            if record.ring.master == me and record.ring.in_sync <= {me} and is_mirrored(self._broker, record)
        ]

    def _mirrors(self, record: records.Queue) -> dict[str, Any]:
        """Return the mirror columns. As in RabbitMQ they are empty for a queue without a mirroring policy,
        else lists."""
        mirrors: list[str] | str = ""
        synchronised: list[str] | str = ""
        distrusted: list[str] | str = ""
        if is_mirrored(self._broker, record):
            view = record.ring
            distrusted = untrusted(self._broker.metadata.state, record)
            mirrors = [self._pids.of_replica(record, name) for name in view.members[1:]]
            synchronised = [
                self._pids.of_replica(record, name) for name in view.members[1:] if name in view.in_sync
            ]
        return {
            "slave_pids": mirrors,
            "synchronised_slave_pids": synchronised,
            "mirror_pids": mirrors,
            "synchronised_mirror_pids": synchronised,
            "untrusted_mirror_nodes": distrusted,
        }

    @property
    def orphans(self) -> OrphanRestorer:
        assert self._orphans is not None
        return self._orphans

    def leases(self, vhost: str, *, masterless: bool = False) -> list[dict[str, Any]]:
        return self._broker.range_requests.leases.rows(vhost, masterless=masterless)

    def release_lease(self, vhost: str, queue: str, name: str) -> int | None:
        return self._broker.range_requests.leases.release_now(vhost, queue, name)

    def scrub(self, start: bool) -> dict[str, Any]:
        journal = self._broker.journal
        if start:
            journal.scrubber.start()
        progress, damage = journal.scrubber.progress, journal.damage
        return {
            "node": self._broker.settings.name,
            "state": "running" if progress.running else "idle",
            "passes": progress.passes_total,
            "segments_done": progress.segments_done,
            "segments_total": progress.segments_total,
            "bytes_done": progress.bytes_done,
            "bytes_total": progress.bytes_total,
            "damaged_found": damage.found_total,
            "damaged_repaired": damage.repaired_total,
            "damaged_messages": damage.pending_count,
        }

    def synchronise(self, vhost: str, name: str, wanted: bool) -> bool:
        record = self._broker.metadata.state.queues.get((vhost, name))
        return record is not None and self._broker.replica_manager.synchronise(record.queue_id, wanted)

    def synchronising(self, vhost: str, name: str) -> bool:
        record = self._broker.metadata.state.queues.get((vhost, name))
        return record is not None and synchronising(self._broker, record) is not None

    def _queue_state(self, queue: Queue) -> dict[str, Any]:
        backing = queue.backing
        exclusive = queue.exclusive_consumer.describe() if queue.exclusive_consumer is not None else None
        owner = cast("Connection | None", queue.owner)
        facts = queue_facts(queue, self._broker.clock.now_ms)
        return {
            "state": "running",
            "messages_ready": backing.ready_count,
            "messages_unacknowledged": backing.unacked_count,
            "messages": backing.ready_count + backing.unacked_count,
            "message_bytes_ready": backing.ready_bytes,
            "message_bytes_unacknowledged": backing.unacked_bytes,
            "message_bytes": backing.ready_bytes + backing.unacked_bytes,
            "consumers": len(queue.consumers.all),
            "owner_pid": self._pids.of_connection(owner) if owner is not None else "",
            "exclusive_consumer_pid": exclusive.channel_pid if exclusive else "",
            "exclusive_consumer_tag": exclusive.tag if exclusive else "",
            **{name: "" if fact is None else fact for name, fact in facts.items()},
        }

    def purge_queue(self, vhost: str, name: str) -> int | None:
        live = self._broker.vhosts.get(vhost)
        queue = live.local_queue(name) if live else None
        return None if queue is None else queue.backing.purge()

    def declaration(self, vhost: str, name: str, source: str | None) -> PutQueue | None:
        return declaration(self._broker, vhost, name, source)

    # -- clients --------------------------------------------------------------------------------

    def connections(self) -> list[dict[str, Any]]:
        return [self._connection_row(connection) for connection in open_connections(self._broker)]

    def _connection_row(self, connection: Connection) -> dict[str, Any]:
        peer = connection.peer
        return {
            "pid": self._pids.of_connection(connection),
            "name": connection.name,
            "host": peer.server_host,
            "port": peer.server_port,
            "peer_host": peer.host,
            "peer_port": peer.port,
            "ssl": peer.tls,
            **peer.facts._asdict(),
            "protocol": PROTOCOL,
            "auth_mechanism": connection.mechanism,
            "user": connection.user.name,
            "vhost": connection.vhost_name,
            "timeout": connection.heartbeat_s,
            "frame_max": connection.frame_max,
            "channel_max": connection.channel_max,
            "client_properties": typed_table(connection.client_properties),
            "state": "blocked" if connection.blocked else connection.state.value,
            "channels": len(connection.channels),
            "connected_at": connection.connected_at_ms,
            "send_pend": 0,
            "recv_oct": connection.traffic.received_bytes,
            "recv_cnt": connection.traffic.received_count,
            "send_oct": connection.traffic.sent_bytes,
            "send_cnt": connection.traffic.sent_count,
        }

    def channels(self) -> list[dict[str, Any]]:
        return [self._channel_row(channel) for channel in open_channels(self._broker)]

    def _channel_row(self, channel: Channel) -> dict[str, Any]:
        publishing = channel.publishing
        in_transaction = publishing.transaction or []
        return {
            "pid": self._pids.of_channel(channel),
            "connection": self._pids.of_connection(channel.connection),
            "name": f"{channel.connection.name} ({channel.number})",
            "number": channel.number,
            "user": channel.user.name,
            "vhost": channel.connection.vhost_name,
            "transactional": publishing.transaction is not None,
            "confirm": publishing.confirms is not None,
            "consumer_count": len(channel.consumers),
            "messages_unacknowledged": len(channel.unacked.by_tag),
            "messages_unconfirmed": 0 if publishing.confirms is None else publishing.confirms.open_count,
            "messages_uncommitted": sum(len(batch) for _, _, batch in in_transaction),
            "acks_uncommitted": sum(len(deliveries) for _, deliveries in publishing.settlements),
            "prefetch_count": channel.consumer_prefetch,
            "global_prefetch_count": channel.prefetch,
        }

    def consumers(self, vhost: str) -> list[dict[str, Any]]:
        """Return the consumers of this node's queues; their clients may be connected to other nodes."""
        live = self._broker.vhosts.get(vhost)
        return [
            self._consumer_row(queue, consumer)
            for queue in (live.local_queues() if live is not None else ())
            for consumer in queue.consumers.all
        ]

    def _consumer_row(self, queue: Queue, consumer: QueueConsumer) -> dict[str, Any]:
        described, active = consumer.describe(), queue.is_active(consumer)
        single = queue.settings.single_active_consumer
        return {
            "queue_name": queue.name,
            "channel_pid": described.channel_pid,
            "consumer_tag": described.tag,
            "ack_required": described.ack_required,
            "prefetch_count": described.prefetch,
            "active": active,
            "activity_status": "up" if not single else "single_active" if active else "waiting",
            "arguments": typed_table(decode_table(described.arguments, 0)[0]),
        }

    def logins(self) -> list[dict[str, Any]]:
        counted = self._broker.events.logins
        return [
            {
                "protocol": protocol,
                "auth_attempts": counted[protocol, True] + counted[protocol, False],
                "auth_attempts_failed": counted[protocol, False],
                "auth_attempts_succeeded": counted[protocol, True],
            }
            for protocol in dict.fromkeys(protocol for protocol, _ in counted)
        ]

    def forget_logins(self) -> None:
        self._broker.events.logins.clear()

    def events_after(self, number: int | None) -> tuple[int, list[dict[str, Any]]]:
        return self._broker.events.watch.after(number, self._broker.clock.now_ms)

    def memory_parts(self, total_bytes: int) -> dict[str, int]:
        return memory_parts(self._broker, total_bytes)

    def close_connections(
        self, explanation: str, *, pid: str = "", user: str = "", vhost: str = "", limit: int = 0
    ) -> int:
        fitting = [
            connection
            for connection in open_connections(self._broker)
            if (not pid or self._pids.of_connection(connection) == pid)
            and (not user or connection.user.name == user)
            and (not vhost or connection.vhost_name == vhost)
        ]
        chosen = fitting[:limit] if limit else fitting
        with self._broker.metadata.acting_as(INTERNAL_USER):
            for connection in chosen:
                connection.force_close(explanation)
        return len(chosen)
