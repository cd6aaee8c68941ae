"""The records of the metadata: plain, frozen values, each with the key it is filed under.

A record says what was declared, never what is going on (no counts, no states, no live objects).
Arguments of exchanges, queues and bindings are kept as the AMQP table's bytes: they are compared,
stored and sent back more often than they are read.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from mirrormq.metadata.copy_records import CopyReport, FormerMember, Rescue
from mirrormq.metadata.ring_view import View, alone

DestinationKind = Literal["queue", "exchange"]

VhostKey = str
UserKey = str
PermissionKey = tuple[str, str]
"""(user, vhost)"""
TopicPermissionKey = tuple[str, str, str]
"""(user, vhost, exchange)"""
ExchangeKey = tuple[str, str]
"""(vhost, name)"""
QueueKey = tuple[str, str]
"""(vhost, name)"""
BindingKey = tuple[str, str, DestinationKind, str, str, bytes]
"""(vhost, source, destination kind, destination, routing key, arguments)"""
PolicyKey = tuple[str, str]
"""(vhost, name)"""
ParameterKey = tuple[str, str, str]
"""(vhost, component, name)"""
LeaseKey = tuple[int, str]
"""(queue id, name)"""
JobKey = tuple[str, str]
ProducerKey = tuple[str, str]
"""(vhost, name)"""


class Vhost(msgspec.Struct, frozen=True, tag="vhost", array_like=True):
    """A name space with its own exchanges, queues, permissions and policies."""

    name: str
    description: str = ""
    tags: list[str] = []
    tracing: bool = False
    limits: dict[str, int] = {}
    """max-connections, max-queues; -1 or absent: no limit."""

    @property
    def key(self) -> VhostKey:
        return self.name


class User(msgspec.Struct, frozen=True, tag="user", array_like=True):
    """Somebody who may log in, if `password_hash` is not empty or a certificate speaks for them."""

    name: str
    password_hash: str = ""
    """Base64; what is inside depends on the algorithm (auth.passwords)."""
    hashing_algorithm: str = "rabbit_password_hashing_sha256"
    tags: list[str] = []
    limits: dict[str, int] = {}
    """max-connections, max-channels; -1 or absent: no limit."""

    @property
    def key(self) -> UserKey:
        return self.name


class Permission(msgspec.Struct, frozen=True, tag="permission", array_like=True):
    """What a user may do in a vhost: three patterns over names of queues and exchanges."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    @property
    def key(self) -> PermissionKey:
        return (self.user, self.vhost)


class TopicPermission(msgspec.Struct, frozen=True, tag="topic-permission", array_like=True):
    """Which routing keys a user may publish to, or bind on, a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    @property
    def key(self) -> TopicPermissionKey:
        return (self.user, self.vhost, self.exchange)


class Exchange(msgspec.Struct, frozen=True, tag="exchange", array_like=True):
    """An exchange as declared."""

    vhost: str
    name: str
    kind: str
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: bytes = b""
    """The encoded AMQP table without its length prefix."""

    @property
    def key(self) -> ExchangeKey:
        return (self.vhost, self.name)


class Queue(msgspec.Struct, frozen=True, tag="queue", array_like=True):
    """A queue as declared."""

    vhost: str
    name: str
    queue_id: int = 0
    """What the journal knows the queue by; never reused. 0 in a command: give me the next one."""
    durable: bool = True
    auto_delete: bool = False
    exclusive: bool = False
    arguments: bytes = b""
    """The encoded AMQP table without its length prefix."""
    node: str = ""
    """The node that holds it (its master)."""
    view: View | None = None
    """Its ring, once there was more to say of it than `node` does."""
    waits_for: tuple[str, ...] = ()
    """The queue is down: no node may be its master until one of these comes back."""
    consumed: bool = False
    """It is to go with its last consumer, is mirrored, and has had one."""
    copies: tuple[CopyReport, ...] = ()
    """While the queue is down: durable positions that returned members and former members have reported."""
    former: tuple[FormerMember, ...] = ()
    """Nodes that keep a copy although they are out of the in-sync set; of each node the latest. One that is
    synchronised again, is not wanted any more, or has left the cluster is not among them."""
    rescue: Rescue | None = None
    """The last promotion of a copy that may lack messages; None: there was none."""

    @property
    def key(self) -> QueueKey:
        return (self.vhost, self.name)

    @property
    def ring(self) -> View:
        """Who holds it."""
        return self.view or alone(self.node)

    def has_copy(self, node: str) -> bool:
        """Whether a node may have a copy that counts: it is a member of the ring, or was in sync."""
        return node in self.ring.members or any(former.node == node for former in self.former)

    @property
    def survives_restart(self) -> bool:
        """Does it outlive its node's restart? An exclusive queue dies with its connection."""
        return self.durable and not self.exclusive


class Binding(msgspec.Struct, frozen=True, tag="binding", array_like=True):
    """A way from an exchange to a queue or another exchange. It is its own key."""

    vhost: str
    source: str
    destination_kind: DestinationKind
    destination: str
    routing_key: str
    arguments: bytes = b""
    """The encoded AMQP table without its length prefix."""

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
    """A policy that caps what clients and policies ask for."""

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
    """A component's setting in one vhost (a shovel, a federation upstream …); value: any JSON."""

    vhost: str
    component: str
    name: str
    value: Any

    @property
    def key(self) -> ParameterKey:
        return (self.vhost, self.component, self.name)


class GlobalParameter(msgspec.Struct, frozen=True, tag="global-parameter", array_like=True):
    """A setting of the whole cluster; value: any JSON."""

    name: str
    value: Any

    @property
    def key(self) -> str:
        return self.name


class Node(msgspec.Struct, frozen=True, tag="node", array_like=True):
    """A member of the cluster."""

    name: str
    address: str = ""
    """Where other nodes reach it: host:port."""
    incarnation: int = 0
    """Which of its lives the cluster knows of: grows each time it starts to serve."""
    running: bool = False
    """Does it serve clients and hold queues, as far as the cluster has agreed?"""
    shutdown: bool = False
    """It stopped in good order; else it was lost."""
    maintenance: bool = False
    """It gives its masters away and takes no clients (`drain`)."""
    start: int = 0
    """Number drawn by the process that claimed the incarnation. A node whose disk went back claims one that
    it has had already: it is another one all the same."""
    journal: str = ""
    """Identity of its journal, as last reported; empty before the first report."""
    generation: int = 0
    """Generation of that journal: grows each time it is opened."""
    intact_since: int = 0
    """First incarnation since which nothing of the journal is known to be lost. A copy that an earlier
    incarnation held is not trusted."""
    sound_since: int = 0
    """First incarnation since which nothing of the journal can have been lost. A power failure may leave
    bytes that recovery cannot tell from damage."""
    journal_fault: str = ""
    """Fault that the present incarnation found (`ring_commands.REPLACED`, …); empty: none."""
    whole_since: int = 0
    """First incarnation since which the journal has no holes. A copy that an incarnation from then on held,
    and that is not intact, is an older state of the queue: complete up to some moment."""

    @property
    def key(self) -> str:
        return self.name

    def has_lost_copy(self, joined: int) -> bool:
        """Whether the journal lost something of a copy that incarnation `joined` held."""
        return joined < self.intact_since

    def has_holes(self, joined: int) -> bool:
        """Whether the journal may have lost messages in the middle of the copy of incarnation `joined`."""
        return joined < self.whole_since


class LeaseTake(msgspec.Struct, frozen=True, array_like=True):
    """Messages that a lease has taken with one question."""

    number: int
    """The client's; grows."""
    spans: bytes
    """Packed (`ranges.spans`); what is settled is no longer in it."""
    count: int
    size_bytes: int
    """Of all that was taken."""


class Lease(msgspec.Struct, frozen=True, tag="lease", array_like=True):
    """Messages of a queue that somebody has taken under a name: nobody else gets them."""

    vhost: str
    queue: str
    name: str
    queue_id: int
    user: str = ""
    """Who took first."""
    number: int = 0
    """The highest take there has been."""
    takes: tuple[LeaseTake, ...] = ()
    """Those that are not settled."""
    settled: bytes = b""
    """Packed: done with, but the queue may still have to be rid of them."""
    idle_ms: int = 0
    """How long it may lie unused."""
    ended: bool = False
    """Given up, and kept only for the sake of what is settled, or of `lost_from`."""
    lost_from: int = 0
    """Of a lease that ended: the first take that was not settled, to be told to its client; 0 if all were."""

    @property
    def key(self) -> LeaseKey:
        return (self.queue_id, self.name)


class Job(msgspec.Struct, frozen=True, tag="job", array_like=True):
    """What a job outside the broker has last said about itself. Nothing in the broker depends on it."""

    vhost: str
    name: str
    kind: str
    state: str
    """One of `ranges.questions.JOB_STATES`."""
    user: str
    """Whose it is: nobody else may speak for it."""
    node: str
    """The node that was told."""
    reported_ms: int
    """When, in milliseconds since the Unix epoch."""
    text: str = ""
    numbers: dict[str, bool | int | float | str] = {}
    table: str = ""
    """JSON: rows, each an object. Empty if there are none."""
    started_ms: int = 0
    """When it first said that it runs."""

    @property
    def key(self) -> JobKey:
        return (self.vhost, self.name)


class Producer(msgspec.Struct, frozen=True, tag="producer", array_like=True):
    """Publisher whose batches may be repeated: the contents of its last batch, one digest per epoch."""

    vhost: str
    name: str
    user: str
    """Only this user may publish batches under the name."""
    generation: str
    """Random, from the first batch. A producer that was forgotten gets another one, so that no queue mistakes
    its messages for earlier ones."""
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
)
