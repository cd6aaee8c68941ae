"""Records of the metadata: plain, frozen values, each with its key.

A record contains what was declared, never runtime state (no counts, no states, no live objects). Arguments of
exchanges, queues and bindings are kept as the AMQP table's bytes: they are compared, stored and sent back
more often than they are decoded.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mirrormq.metadata.copy_records import CopyReport, FormerMember, Rescue
from mirrormq.metadata.link_records import Link
from mirrormq.metadata.log_indexes import LogIndexes
from mirrormq.metadata.ring_view import View, alone
from mirrormq.protocol_version import PROTOCOL_VERSION_OLDEST

DestinationKind = Literal["queue", "exchange"]

VhostKey = str
UserKey = str
PermissionKey = tuple[str, str]
"""Key of a permission: (user, vhost)."""
TopicPermissionKey = tuple[str, str, str]
"""Key of a topic permission: (user, vhost, exchange)."""
ExchangeKey = tuple[str, str]
"""Key of an exchange: (vhost, name)."""
QueueKey = tuple[str, str]
"""Key of a queue: (vhost, name)."""
BindingKey = tuple[str, str, DestinationKind, str, str, bytes]
"""Key of a binding: (vhost, source, destination kind, destination, routing key, arguments)."""
PolicyKey = tuple[str, str]
"""Key of a policy: (vhost, name)."""
ParameterKey = tuple[str, str, str]
"""Key of a parameter: (vhost, component, name)."""
LeaseKey = tuple[int, str]
"""Key of a lease: (queue id, name)."""
JobKey = tuple[str, str]
ProducerKey = tuple[str, str]
"""Key of a producer: (vhost, name)."""


class Vhost(msgspec.Struct, frozen=True, tag="vhost", array_like=True):
    """Name space with its own exchanges, queues, permissions and policies."""

    name: str
    description: str = ""
    tags: list[str] = []
    tracing: bool = False
    limits: dict[str, int] = {}
    """Limits max-connections and max-queues; -1 or absent: no limit."""

    @property
    def key(self) -> VhostKey:
        return self.name


class User(msgspec.Struct, frozen=True, tag="user", array_like=True):
    """User account. Login requires a non-empty `password_hash` or a certificate."""

    name: str
    password_hash: str = ""
    """Base64 of the hash; its layout depends on the algorithm (auth.passwords)."""
    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    tags: list[str] = []
    limits: dict[str, int] = {}
    """Limits max-connections and max-channels; -1 or absent: no limit."""

    @property
    def key(self) -> UserKey:
        return self.name


class Permission(msgspec.Struct, frozen=True, tag="permission", array_like=True):
    """Permissions of a user in a vhost: three patterns over names of queues and exchanges."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    @property
    def key(self) -> PermissionKey:
        return (self.user, self.vhost)


class TopicPermission(msgspec.Struct, frozen=True, tag="topic-permission", array_like=True):
    """Patterns of routing keys that a user may publish to, or bind on, a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    @property
    def key(self) -> TopicPermissionKey:
        return (self.user, self.vhost, self.exchange)


class Exchange(msgspec.Struct, frozen=True, tag="exchange", array_like=True):
    """Exchange as declared."""

    vhost: str
    name: str
    kind: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = b""
    """Encoded AMQP table without its length prefix."""

    @property
    def key(self) -> ExchangeKey:
        return (self.vhost, self.name)


class Queue(msgspec.Struct, frozen=True, tag="queue", array_like=True):
    """Queue as declared, with its ring."""

    vhost: str
    name: str
    queue_id: int = 0
    """Id of the queue in the journal; never reused. 0 in a command: assign the next one."""
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: bytes = b""
    """Encoded AMQP table without its length prefix."""
    node: str = ""
    """Name of the queue's master."""
    view: View | None = None
    """Ring of the queue; None while `node` alone describes it."""
    waits_for: tuple[str, ...] = ()
    """Nodes that a down queue waits for: it has no master until one of these comes back."""
    consumed: bool = False
    """Flag: the queue is auto-delete and mirrored, and has had a consumer."""
    copies: tuple[CopyReport, ...] = ()
    """Durable positions that returned members and former members have reported while the queue is down."""
    former: tuple[FormerMember, ...] = ()
    """Nodes outside the in-sync set that keep a copy; one entry per node, the latest. A node that is
    synchronised again, is no longer wanted, or has left the cluster is not among them."""
    rescue: Rescue | None = None
    """Last promotion of a copy that may lack messages; None: there was none."""
    indexes: LogIndexes = LogIndexes()

    @property
    def key(self) -> QueueKey:
        return (self.vhost, self.name)

    @property
    def ring(self) -> View:
        """Return the queue's ring; of one member if no view is stored."""
        return self.view or alone(self.node)

    def has_copy(self, node: str) -> bool:
        """Return whether a node may have a copy that counts: it is a member of the ring, or was in sync."""
        return node in self.ring.members or any(former.node == node for former in self.former)

    @property
    def survives_restart(self) -> bool:
        """Return whether the queue outlives its node's restart. An exclusive queue ends with its
        connection."""
        return self.durable and not self.exclusive


class Binding(msgspec.Struct, frozen=True, tag="binding", array_like=True):
    """Route from an exchange to a queue or another exchange. A binding is identified by all its fields."""

    vhost: str
    source: str
    destination_kind: DestinationKind
    destination: str
    routing_key: str
    arguments: bytes = b""
    """Encoded AMQP table without its length prefix."""

    @property
    def key(self) -> BindingKey:
        return (
            self.vhost,
            self.source,
            self.destination_kind,
            self.destination,
            self.routing_key,
            self.arguments,
        )


class Policy(msgspec.Struct, frozen=True, tag="policy", array_like=True):
    """Settings for all queues or exchanges whose names match a pattern."""

    vhost: str
    name: str
    pattern: str
    apply_to: str = "all"
    definition: dict[str, Any] = {}
    priority: int | float = 0

    @property
    def key(self) -> PolicyKey:
        return (self.vhost, self.name)


class OperatorPolicy(msgspec.Struct, frozen=True, tag="operator-policy", array_like=True):
    """Policy that caps the limits which clients and policies set."""

    vhost: str
    name: str
    pattern: str
    apply_to: str = "all"
    definition: dict[str, Any] = {}
    priority: int | float = 0

    @property
    def key(self) -> PolicyKey:
        return (self.vhost, self.name)


class Parameter(msgspec.Struct, frozen=True, tag="parameter", array_like=True):
    """Setting of a component in one vhost (a shovel, a federation upstream …); value: any JSON."""

    vhost: str
    component: str
    name: str
    value: Any

    @property
    def key(self) -> ParameterKey:
        return (self.vhost, self.component, self.name)


class GlobalParameter(msgspec.Struct, frozen=True, tag="global-parameter", array_like=True):
    """Setting of the whole cluster; value: any JSON."""

    name: str
    value: Any

    @property
    def key(self) -> str:
        return self.name


class Node(msgspec.Struct, frozen=True, tag="node", array_like=True):
    """Member of the cluster."""

    name: str
    address: str = ""
    """Address for other nodes: host:port."""
    incarnation: int = 0
    """Incarnation that the cluster knows of: grows each time the node starts to serve."""
    running: bool = False
    """Flag: the node serves clients and holds queues, as far as the cluster has agreed."""
    shutdown: bool = False
    """Flag: the node stopped in good order; otherwise it was lost."""
    maintenance: bool = False
    """Flag: the node gives its masters away and takes no clients (`drain`)."""
    start: int = 0
    """Number drawn by the process that claimed the incarnation. A node whose disk went back may claim a used
    incarnation; this number distinguishes the two."""
    journal: str = ""
    """Identity of the node's journal, as last reported; empty before the first report."""
    generation: int = 0
    """Generation of that journal: grows each time it is opened."""
    intact_since: int = 0
    """First incarnation since which nothing of the journal is known to be lost. A copy that an earlier
    incarnation held is not trusted."""
    sound_since: int = 0
    """First incarnation since which nothing of the journal can have been lost. A power failure may leave
    bytes that recovery cannot distinguish from damage."""
    journal_fault: str = ""
    """Fault that the present incarnation found (`ring_commands.REPLACED`, …); empty: none."""
    whole_since: int = 0
    """First incarnation since which the journal can lack messages at its end only. A copy that an incarnation
    from then on held, and that is not intact, is an older state of the queue: complete up to some moment."""
    version: int = PROTOCOL_VERSION_OLDEST
    """Protocol version of the process that claimed the incarnation. Nodes of version 2 do not write it."""
    static_shovels: tuple[str, ...] = ()
    """Names of the shovels in the node's settings. Nodes of version 2 do not write it."""

    @property
    def key(self) -> str:
        return self.name

    def has_lost_copy(self, joined: int) -> bool:
        """Return whether the journal lost something of a copy that incarnation `joined` held."""
        return joined < self.intact_since

    def has_incomplete_copy(self, joined: int) -> bool:
        """Return whether the journal may have lost messages in the middle of the copy of incarnation
        `joined`."""
        return joined < self.whole_since


class LeaseTake(msgspec.Struct, frozen=True, array_like=True):
    """Messages that a lease has taken with one request."""

    number: int
    """Number of the take, chosen by the client; grows."""
    spans: bytes
    """Packed spans that are not settled (`sequences.spans`)."""
    count: int
    size_bytes: int
    """Size of all messages of the take."""


class Lease(msgspec.Struct, frozen=True, tag="lease", array_like=True):
    """Messages of a queue that are held for a named reader; no other client gets them."""

    vhost: str
    queue: str
    name: str
    queue_id: int
    user: str = ""
    """User of the first take."""
    number: int = 0
    """Highest number of a take so far."""
    takes: tuple[LeaseTake, ...] = ()
    """Takes that are not settled."""
    settled: bytes = b""
    """Packed sequences that are settled, but that the queue may still have to drop."""
    idle_ms: int = 0
    """Time in milliseconds that the lease may stay unused."""
    ended: bool = False
    """Flag: the lease has ended, and its record is kept only for `settled` or `lost_from`."""
    lost_from: int = 0
    """First take that was not settled when the lease ended, to be reported to its client; 0 if all were."""

    @property
    def key(self) -> LeaseKey:
        return (self.queue_id, self.name)


class Job(msgspec.Struct, frozen=True, tag="job", array_like=True):
    """Last report of a job outside the broker. Nothing in the broker depends on it."""

    vhost: str
    name: str
    kind: str
    state: str
    """State of the job: one of `ranges.range_protocol.JOB_STATES`."""
    user: str
    """Owner of the job: only this user may report for it."""
    node: str
    """Node that received the report."""
    reported_ms: int
    """Time of the report in milliseconds since the Unix epoch."""
    text: str = ""
    numbers: dict[str, bool | int | float | str] = {}
    table: str = ""
    """Table as JSON: rows, each an object. Empty if there are none."""
    started_ms: int = 0
    """Time of the first report that the job runs."""

    @property
    def key(self) -> JobKey:
        return (self.vhost, self.name)


class Producer(msgspec.Struct, frozen=True, tag="producer", array_like=True):
    """Publisher whose batches may be repeated: the contents of its last batch, one digest per epoch."""

    vhost: str
    name: str
    user: str
    """User that may publish batches under the name; no other user may."""
    generation: str
    """Random value from the first batch. A producer that was forgotten gets another one, so that no queue
    mistakes its messages for earlier ones."""
    batch: int
    digests: tuple[str, ...]
    """Contents published for `batch`, oldest first. The place of a digest is its epoch."""
    used_ms: int

    @property
    def key(self) -> ProducerKey:
        return (self.vhost, self.name)


Record = (
    Vhost
    | User
    | Permission
    | TopicPermission
    | Exchange
    | Queue
    | Binding
    | Policy
    | OperatorPolicy
    | Parameter
    | GlobalParameter
    | Node
    | Lease
    | Job
    | Producer
    | Link
)
