"""Commands: the only way metadata changes.

The same commands in the same order give the same state on every node: a command never refers to a clock, a
random number or a live object. One whose premise is gone (a binding to a deleted queue) changes nothing.
"""

from __future__ import annotations

import msgspec

from mirrormq.metadata import metadata_encoding, records
from mirrormq.metadata.copy_records import CopyReport
from mirrormq.metadata.link_records import LinkChange, LinkKey
from mirrormq.metadata.records import DestinationKind
from mirrormq.metadata.ring_view import View


class _Command(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Base of commands: encoded as an array that starts with the class's name; fields may only be added at
    the end."""


class PutVhost(_Command, frozen=True):
    """Create or update a vhost; a new one comes with its `amq.*` exchanges."""

    record: records.Vhost


class DeleteVhost(_Command, frozen=True):
    """Delete a vhost with everything in it."""

    name: str


class PutUser(_Command, frozen=True):
    record: records.User


class DeleteUser(_Command, frozen=True):
    """Delete a user with their permissions."""

    name: str


class PutPermission(_Command, frozen=True):
    record: records.Permission


class DeletePermission(_Command, frozen=True):
    user: str
    vhost: str


class PutTopicPermission(_Command, frozen=True):
    record: records.TopicPermission


class DeleteTopicPermission(_Command, frozen=True):
    """Delete a topic permission; without an exchange, all of the user's topic permissions in the vhost."""

    user: str
    vhost: str
    exchange: str | None = None


class PutExchange(_Command, frozen=True):
    record: records.Exchange
    if_absent: bool = True
    """Flag: keep an existing record, because a declaration must not change an exchange that another client
    declared first."""


class DeleteExchange(_Command, frozen=True):
    """Delete an exchange with the bindings from it and to it."""

    vhost: str
    name: str


class PutQueue(_Command, frozen=True):
    record: records.Queue
    if_absent: bool = True
    """Flag: keep an existing record. False: replace it (a new node, say); a queue_id of 0 keeps the old
    id."""


class DeleteQueue(_Command, frozen=True):
    """Delete a queue with the bindings to it."""

    vhost: str
    name: str
    queue_id: int = 0
    """Id of the queue to delete, if not 0: a queue declared anew under the same name stays."""


class PutBinding(_Command, frozen=True):
    record: records.Binding


class DeleteBinding(_Command, frozen=True):
    """Delete a binding. If the source is auto-delete and this was its last binding, it is deleted too."""

    vhost: str
    source: str
    destination_kind: DestinationKind
    destination: str
    routing_key: str
    arguments: bytes = b""


class PutPolicy(_Command, frozen=True):
    record: records.Policy


class DeletePolicy(_Command, frozen=True):
    vhost: str
    name: str


class PutOperatorPolicy(_Command, frozen=True):
    record: records.OperatorPolicy


class DeleteOperatorPolicy(_Command, frozen=True):
    vhost: str
    name: str


class PutParameter(_Command, frozen=True):
    record: records.Parameter


class DeleteParameter(_Command, frozen=True):
    vhost: str
    component: str
    name: str


class PutGlobalParameter(_Command, frozen=True):
    record: records.GlobalParameter


class DeleteGlobalParameter(_Command, frozen=True):
    name: str


class PutNode(_Command, frozen=True):
    """Update a node that joins, starts, stops or is lost. A command of an earlier incarnation than the known
    one changes nothing."""

    record: records.Node


class DeleteNode(_Command, frozen=True):
    """Remove a node from the cluster."""

    name: str


class ViewChange(msgspec.Struct, frozen=True, array_like=True):
    """Next view of one queue, adopted only if the queue's view has not changed since the proposal."""

    queue_id: int
    view: View
    """Proposed view: adopted only if its version is one above the present one's."""
    waits_for: tuple[str, ...] = ()
    """Members that a down queue waits for; the view then still names its last master first."""


class ChangeViews(_Command, frozen=True):
    """Change the views of queues. Each change is adopted or refused separately."""

    changes: list[ViewChange]


class ReportJournal(_Command, frozen=True):
    """Report that a node has opened its journal. The state compares it with the node's last report."""

    node: str
    incarnation: int
    journal: str
    generation: int
    damaged: bool = False
    """Flag: recovery dropped more than a torn tail."""
    proven: bool = True
    """Flag: the damage hit bytes that were synced; otherwise a power failure may have caused it."""


class ReportOutdated(_Command, frozen=True):
    """Report that a peer remembers more of a node's disk than the node has: an older copy of its data
    directory was put in place (`consensus.durable_states`)."""

    node: str
    start: int
    """Number that the node's process drew."""


class ReleaseCopies(_Command, frozen=True):
    """Release copies of former members that are no longer needed: (queue id, node, incarnation)."""

    copies: list[tuple[int, str, int]]


class ReportCopies(_Command, frozen=True):
    """Report durable positions of copies of queues that are down, by queue id."""

    copies: list[tuple[int, CopyReport]]


class DeleteQueues(_Command, frozen=True):
    """Delete queues that were lost with the nodes that held them, by id. The loss of a node does not
    auto-delete an exchange."""

    queue_ids: list[int]


class NoteConsumer(_Command, frozen=True):
    """Record that a mirrored auto-delete queue has a consumer: if all its consumers are lost with its master,
    it is deleted."""

    queue_id: int


class DropTransient(_Command, frozen=True):
    """Drop everything that does not survive a restart: of one node (queues that only it holds), or of all
    (None)."""

    node: str | None = None
    over: list[tuple[str, int]] | None = None
    """Nodes with their last incarnations, if given: these have ended, whatever the metadata says. If then
    only `node` may run, the whole cluster was down, and everything that does not survive that is dropped
    too."""


class TakeMessages(_Command, frozen=True):
    """Add messages that the queue's master has set aside to a lease. Refused if another node is master by
    then, or the same node in a later incarnation: it has delivered them to other clients."""

    queue_id: int
    epoch: int
    node: str
    incarnation: int
    lease: str
    take: records.LeaseTake
    user: str
    idle_ms: int


class SettleLease(_Command, frozen=True):
    """Settle the sequences below `to` in the takes of a lease up to `number`."""

    queue_id: int
    lease: str
    number: int
    to: int


class ForgetSettled(_Command, frozen=True):
    """Remove settled sequences from a lease after the queue has dropped them; packed spans."""

    queue_id: int
    lease: str
    spans: bytes


class EndLease(_Command, frozen=True):
    """End a lease: messages that it has not settled become ready for all consumers."""

    queue_id: int
    lease: str
    number: int = -1
    """Number of the last take, if not -1: the lease ends only if there has been no later take."""


class PutJob(_Command, frozen=True):
    """Store the report of a job."""

    record: records.Job


class DeleteJob(_Command, frozen=True):
    """Delete the record of a job."""

    vhost: str
    name: str


class BeginBatch(_Command, frozen=True):
    """Begin or repeat a batch of a producer. The record holds the one digest of its contents."""

    record: records.Producer


class EndWrite(_Command, frozen=True):
    """Let the producers `write/…` of a user be forgotten: the write is complete and is never repeated."""

    vhost: str
    write: str
    user: str


class AssignLinks(_Command, frozen=True):
    """Assign links to nodes, and drop assignments of links that no definition asks for (key and epoch)."""

    changes: list[LinkChange]
    dropped: list[tuple[LinkKey, int]] = []


class RestartLink(_Command, frozen=True):
    """Restart a link on its node: the epoch grows, and the node begins anew."""

    vhost: str
    kind: str
    name: str


class FinishLink(_Command, frozen=True):
    """Delete the parameter of a link that has done its work. Refused if another epoch has begun."""

    vhost: str
    kind: str
    name: str
    epoch: int


class BeginLogIndexes(_Command, frozen=True):
    """Record log indexes of all queues from this entry on, because a member lacks some (`log_indexes`)."""


Command = (
    PutVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | PutPermission
    | DeletePermission
    | PutTopicPermission
    | DeleteTopicPermission
    | PutExchange
    | DeleteExchange
    | PutQueue
    | DeleteQueue
    | PutBinding
    | DeleteBinding
    | PutPolicy
    | DeletePolicy
    | PutOperatorPolicy
    | DeleteOperatorPolicy
    | PutParameter
    | DeleteParameter
    | PutGlobalParameter
    | DeleteGlobalParameter
    | DropTransient
    | PutNode
    | DeleteNode
    | ChangeViews
    | ReportJournal
    | ReportCopies
    | ReportOutdated
    | ReleaseCopies
    | DeleteQueues
    | NoteConsumer
    | TakeMessages
    | SettleLease
    | ForgetSettled
    | EndLease
    | PutJob
    | DeleteJob
    | BeginBatch
    | EndWrite
    | AssignLinks
    | RestartLink
    | FinishLink
    | BeginLogIndexes
)

_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    """Encode a command as a log entry."""
    return metadata_encoding.encode(command)


def checked(command: Command) -> bytes:
    """Encode a command that every node can decode; ValueError if a value is not of its field's type.

    Values come from JSON. A node that cannot decode an entry of the log stops, and stops again at each start.
    """
    entry = encode(command)
    try:
        decode(entry)
    except msgspec.ValidationError as error:
        raise ValueError(f"it cannot be kept as metadata: {error}") from None
    return entry


def decode(entry: bytes) -> Command:
    """Decode a log entry; raises msgspec.DecodeError or ValidationError for anything else."""
    return metadata_encoding.decode(entry, _decoder, Command)
