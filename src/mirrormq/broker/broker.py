"""Broker of one node: its live objects, and the work at the end of each turn.

Connections call the broker one after the other and leave work behind. That work is queues to pump, queues
whose publishers wait for the disk, and channels with confirms to send. `turn` does all of that work at once:
it delivers ready messages, syncs the journal once for all publishers and sends the confirms. The runtime
calls `turn` once per pass of its event loop and writes to the sockets afterwards.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from mirrormq.auth import sasl
from mirrormq.auth.passwords import PasswordCheck
from mirrormq.auth.permissions import Permissions
from mirrormq.broker.alarms import MEMORY, Alarms
from mirrormq.broker.broker_limits import DEFAULT_LIMITS, BrokerLimits
from mirrormq.broker.client_limits import ClientLimits
from mirrormq.broker.connection_base import ConnectionBase, HeldDelivery
from mirrormq.broker.direct_replies import ReplyReceiver, node_of
from mirrormq.broker.pids import Pids
from mirrormq.broker.vhost import Vhost
from mirrormq.clock import Clock
from mirrormq.cluster.rescues import Rescues
from mirrormq.config.settings import Settings
from mirrormq.errors import PreconditionFailed
from mirrormq.events import metadata_log_entries
from mirrormq.events.event_exchange import EventExchange
from mirrormq.events.firehose import Firehose
from mirrormq.events.log_buffer import LogBuffer
from mirrormq.leases.range_request_handler import RangeRequestHandler
from mirrormq.metadata import records
from mirrormq.metadata.changes import Change, Deleted, Put
from mirrormq.metadata.commands import Command
from mirrormq.metadata.policy_matching import PolicyMatcher
from mirrormq.metadata.store import MetadataStore
from mirrormq.queues.memory_budget import MemoryBudget
from mirrormq.queues.message import Envelope, Message
from mirrormq.queues.queue import Queue
from mirrormq.queues.queue_interface import Pumped
from mirrormq.queues.turn_work import TurnWork
from mirrormq.remote.remote_endpoint import RemoteEndpoint
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.copy_reports import CopyReports
from mirrormq.replication.queue_placement import placed_again
from mirrormq.replication.record_repair import RecordRepair
from mirrormq.replication.replica_manager import ReplicaManager
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.storage.journal import Journal

if TYPE_CHECKING:
    from mirrormq.auth.client_peer import Peer

CONSUMER_CHECK_INTERVAL_MS = 60_000
"""Interval in which RabbitMQ checks for deliveries that were not acknowledged in time."""


def _discard(peer: str, message: RemoteMessage | RingBatch) -> None:
    """Discard a message: a single node has no peers."""


def _never(peer: str) -> bool:
    return False


class Environment(NamedTuple):
    """Impure functions, and limits, that the runtime passes to the broker."""

    unique_name: Callable[[], str]
    """Return an unguessable name, for server-named queues and consumer tags."""
    choose: Callable[[int], int]
    """Return a random number below the argument."""
    verify_password: Callable[[PasswordCheck], None]
    """Check a password outside the event loop, because good hashes are slow."""
    send: Callable[[str, RemoteMessage | RingBatch], None] = _discard
    """Send a message to another node if a link to it is up."""
    congested: Callable[[str], bool] = _never
    """Return whether the backlog to a node is so long that senders must wait."""
    limits: BrokerLimits = DEFAULT_LIMITS


class Broker:
    """All live objects of one node."""

    rescues: Rescues
    work: TurnWork

    def __init__(
        self,
        settings: Settings,
        metadata: MetadataStore,
        journal: Journal,
        clock: Clock,
        hot_budget: MemoryBudget,
        outside: Environment,
    ) -> None:
        self.settings = settings
        self.metadata = metadata
        self.journal = journal
        self.clock = journal.clock = clock
        self.hot_budget = hot_budget
        self.unique_name, self.choose = outside.unique_name, outside.choose
        self.verify_password = outside.verify_password
        self.limits = outside.limits
        self.permissions = Permissions(metadata.state)
        self.policies = PolicyMatcher(metadata.state)
        self.alarms, self.client_limits = Alarms(), ClientLimits(self)
        self.pids = Pids(settings.name, clock.now_ms)
        self.events, self.firehose = EventExchange(self), Firehose(self)
        self.connections: dict[ConnectionBase, None] = {}
        """Connections that have completed the handshake, oldest first."""
        self.reply_consumers: dict[str, ReplyReceiver] = {}
        """Channels that wait for direct replies, by the reply name in their requests."""
        self.log_entries = LogBuffer()
        """Log entries that the runtime takes and writes."""
        node = metadata.state.nodes.get(settings.name)
        self.incarnation = max(1, node.incarnation) if node is not None else 1
        """Incarnation of this node."""
        self.remote = RemoteEndpoint(settings.name, self.incarnation, self, outside.send, self.limits.remote)
        self.replica_manager = ReplicaManager(self, outside.send, outside.congested, self.limits.replication)
        """Replicas of the mirrored queues on this node."""
        self.copy_reports = CopyReports(self)
        self.range_requests = RangeRequestHandler(self, partial(placed_again, self))
        self.repairs, self.rescues = RecordRepair(self), Rescues(self)
        self.writing: dict[ConnectionBase, None] = {}
        """Connections with output; the runtime takes them."""
        self.turns = self.pumped = 0
        """Number of turns, and number of queues pumped in them."""
        self.work = TurnWork()
        """Work that the turn has collected."""
        self.vhosts: dict[str, Vhost] = {}
        for record in metadata.state.vhosts.values():
            self.vhosts[record.name] = Vhost(self, record)
        metadata.listeners.append(self._follow)
        metadata.observers.append(self.events.observe)
        self.alarms.listeners += [self.alarms_changed, self.events.alarms_changed]
        self._watch_consumers()

    def write(self, command: Command, user: str, then: Callable[[], object]) -> None:
        """Write a metadata command for a user, then call `then`; not if this broker is detached by that
        time."""

        def done() -> None:
            if self._follow in self.metadata.listeners:
                then()

        with self.metadata.acting_as(user):
            self.metadata.write(command, done, grouped=True)

    def detach(self) -> None:
        """Stop following the metadata: the node continues without this broker."""
        self.metadata.listeners.remove(self._follow)
        self.metadata.observers.remove(self.events.observe)

    # -- end of a turn --------------------------------------------------------------------------

    def wake(self, queue: Pumped) -> None:
        """Pump this queue at the end of the turn."""
        self.work.wake(queue)

    def turn(self, commit: bool = True) -> bool:
        """Do the work that the turn has collected; return True if another turn must follow at once."""
        self.begin_turn()
        return self.finish_turn(commit)

    def begin_turn(self) -> bool:
        """Pump queues and send ring operations before the disk sync; return True if a ring message was sent.

        Each list is emptied item by item: an exception in one queue leaves the other queues to the next call.
        """
        self.turns += 1
        awake = self.work.awake
        self.pumped += len(awake)
        for _ in range(len(awake)):
            queue = awake.popleft()
            queue.awake = False
            if not queue.deleted and queue.pump():
                self.work.wake(queue)
        if self.copy_reports.pending:
            self.copy_reports.flush()
        spoke = self.replica_manager.flush_operations()
        self.remote.send_early()
        return spoke

    def finish_turn(self, commit: bool = True) -> bool:
        """Sync the journal and send what waits for it; return True if another turn must follow at once.

        Without `commit` the sync and the confirms that wait for it are left to a later turn. Delivered marks
        are written in any case before a consumer sees the messages, so that they count as redelivered after a
        kill.
        """
        journal, writer = self.journal, self.journal.writer
        awaiting_flush, reporting = self.work.awaiting_flush, self.work.reporting
        if journal.damage.unseen:
            self.repairs.request_damaged()
        if commit:
            if journal.touched or writer.needs_sync or writer.buffered:
                journal.flush(sync=writer.needs_sync)
            self.replica_manager.commit()
            for _ in range(len(awaiting_flush)):
                awaiting_flush.popleft().flushed()
        elif journal.touched:
            journal.flush(sync=False)
        self.remote.send_late()
        for _ in range(len(reporting)):
            reporting.popleft().report()
        # A `flushed` may write and wait for the disk again: no later event would end that wait.
        waits = commit and bool(awaiting_flush)
        return bool(self.work.awake) or waits or self.replica_manager.pending

    # -- connections ----------------------------------------------------------------------------

    def mechanisms(self, peer: Peer) -> tuple[str, ...]:
        """Return the SASL mechanisms that this client may use: EXTERNAL needs TLS."""
        return tuple(sorted(m for m in self.settings.auth_mechanisms if m != sasl.EXTERNAL or peer.tls))

    def connected(self, connection: ConnectionBase) -> None:
        """Register a connection that is open."""
        self.connections[connection] = None
        self.events.connection_created(connection)

    def disconnected(self, connection: ConnectionBase) -> None:
        """Remove a connection that is closed, and keep its traffic counters in the vhost."""
        self.connections.pop(connection, None)
        self.range_requests.disconnected(connection)
        vhost = self.vhosts.get(connection.vhost_name)
        if vhost is not None:
            vhost.past_traffic.add(connection.traffic)
        self.events.connection_closed(connection)

    def delete_exclusive(self, connection: ConnectionBase) -> None:
        """Delete the exclusive queues of a closed connection, including those whose declaration is still
        being written."""
        vhost = self.vhosts.get(connection.vhost_name)
        if vhost is not None and vhost.exclusive_to(connection):
            found = vhost
            self.metadata.written(self.metadata.last_written, lambda: found.release(connection))

    def alarms_changed(self) -> None:
        """Unblock publishers when no alarm is left. A raised alarm blocks each one at its next publish."""
        if not self.alarms.in_force:
            for connection in self.connections:
                connection.unblock()
        self.replica_manager.pause_synchronisation(MEMORY in self.alarms.raised)

    def _check_consumer_timeouts(self) -> None:
        """Close channels that have held a delivery for longer than `consumer_timeout`."""
        timeout = self.settings.consumer_timeout_ms
        assert timeout is not None
        advice = "This timeout value can be configured, see consumers doc guide to learn more"
        for connection in list(self.connections):
            for channel in connection.open_channels():
                oldest = channel.oldest_delivery_ms
                if oldest is not None and not channel.closing and self.clock.now_ms - oldest > timeout:
                    late = PreconditionFailed(
                        f"delivery acknowledgement on channel {channel.number} timed out. "
                        f"Timeout value used: {timeout} ms. {advice}",
                        class_id=0,
                    )
                    connection.close_channel(channel, late)
        self._watch_consumers()

    def _watch_consumers(self) -> None:
        timeout = self.settings.consumer_timeout_ms
        if timeout is not None:
            interval = min(timeout // 2, CONSUMER_CHECK_INTERVAL_MS)
            self.clock.at(self.clock.now_ms + interval, self._check_consumer_timeouts)

    # -- links to other nodes -------------------------------------------------------------------

    def link_up(self, peer: str, session: int = 0) -> None:
        """Handle a new link to a node. Messages on an earlier link may be lost."""
        self.remote.up(peer)
        self.replica_manager.reconnected(peer)

    def link_down(self, peer: str) -> None:
        """Handle the loss of the link to a node."""
        self.remote.down(peer)

    def link_message(self, peer: str, message: RemoteMessage | RingBatch) -> bool:
        """Handle a message from another node; return whether the runtime must end the turn soon."""
        if isinstance(message, RingBatch):
            return self.replica_manager.receive(peer, message)
        self.remote.receive(peer, message)
        return True

    def link_relieved(self, peer: str) -> None:
        """Resume sending on a link that is no longer congested."""
        self.replica_manager.relieved(peer)

    def unacked_of(self, queue: Queue, queue_id: int) -> list[Message]:
        """Return the messages of a queue that clients of all nodes hold unacknowledged."""
        here = [message for message, _ in self.deliveries_of(queue)]
        return [*self.remote.held(queue_id), *here, *queue.kept.own]

    def deliveries_of(self, queue: Queue) -> list[HeldDelivery]:
        """Return the deliveries of a queue that clients of this node hold unacknowledged."""
        found: list[HeldDelivery] = []
        for connection in self.connections:
            for channel in connection.open_channels():
                found += channel.deliveries_of(queue)
        return found

    # -- requests of other nodes ----------------------------------------------------------------

    def queue_is_gone(self, queue_id: int) -> bool:
        """Return whether a queue with this id existed and is deleted."""
        state = self.metadata.state
        return queue_id < state.next_queue_id and queue_id not in state.queue_keys

    def deliver_reply(self, name: str, envelope: Envelope, contents: list[bytes]) -> None:
        """Deliver direct replies to a channel of this node, or send them to the node in the reply name."""
        waiting = self.reply_consumers.get(name)
        if waiting is not None:
            waiting.deliver(envelope, contents)
            return
        node = node_of(name)
        if node is not None and node != self.settings.name:
            self.remote.replies.send(node, name, envelope, contents)

    def awaits_reply(self, name: str) -> bool:
        """Return whether a channel of this node waits for direct replies under this name."""
        return name in self.reply_consumers

    def find_reply_channel(self, name: str, answered: Callable[[bool], object]) -> None:
        """Report to `answered` whether a channel of any node waits for direct replies under this name."""
        node = node_of(name)
        if node is None or node == self.settings.name:
            answered(self.awaits_reply(name))
        else:
            self.remote.replies.ask(node, name, answered)

    # -- following the metadata -----------------------------------------------------------------

    def _follow(self, change: Change) -> None:
        metadata_log_entries.follow(self, change)
        record = change.record
        if isinstance(record, records.Vhost):
            self._follow_vhost(change, record)
        elif isinstance(record, records.User):
            self._follow_user(change, record)
        elif isinstance(record, records.Lease):
            self.range_requests.leases.follow(change)
        elif isinstance(
            record,
            records.Exchange | records.Queue | records.Binding | records.Policy | records.OperatorPolicy,
        ):
            vhost = self.vhosts.get(record.vhost)
            if vhost is not None:
                vhost.follow(change)
        elif isinstance(record, records.Node) and record.name != self.settings.name:
            over = isinstance(change, Deleted) or not record.running
            self.remote.lost(record.name, record.incarnation if over else record.incarnation - 1)

    def _follow_vhost(self, change: Change, record: records.Vhost) -> None:
        if isinstance(change, Deleted):
            self.vhosts.pop(record.name).close()
            for connection in [c for c in self.connections if c.vhost_name == record.name]:
                connection.force_close(f"vhost '{record.name}' is deleted")
        elif change.before is None:
            self.vhosts[record.name] = Vhost(self, record, empty=True)
        else:
            self.vhosts[record.name].tracing = record.tracing

    def _follow_user(self, change: Change, record: records.User) -> None:
        if isinstance(change, Deleted):
            for connection in [c for c in self.connections if c.user.name == record.name]:
                connection.force_close(f"user '{record.name}' is deleted")
        elif isinstance(change, Put):
            for connection in self.connections:
                if connection.user.name == record.name:
                    connection.user = record
