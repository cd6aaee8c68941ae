"""Commands: the only way metadata changes.

A command is a value that says everything needed to apply it: applying the same commands in the
same order to the same state gives the same state on every node, today from a local log, later from
a replicated one. So a command never refers to a clock, a random number or a live object, and one
whose premise has gone meanwhile (a binding to a queue that was deleted first) changes nothing.
"""

from __future__ import annotations

import msgspec

from mirrormq.metadata import metadata_encoding, records
from mirrormq.metadata.copy_records import CopyReport
from mirrormq.metadata.records import DestinationKind
from mirrormq.metadata.ring_view import View


class _Command(msgspec.Struct, frozen=True, array_like=True, tag=True):
    """Encoded as an array that starts with the class's name; fields may only be added at the end."""


class PutVhost(_Command, frozen=True):
    """A new vhost comes with its `amq.*` exchanges."""

    record: records.Vhost


class DeleteVhost(_Command, frozen=True):
    """Takes everything in it along."""

    name: str


class PutUser(_Command, frozen=True):
    record: records.User


class DeleteUser(_Command, frozen=True):
    """Takes the user's permissions along."""

    name: str


class PutPermission(_Command, frozen=True):
    record: records.Permission


class DeletePermission(_Command, frozen=True):
    user: str
    vhost: str


class PutTopicPermission(_Command, frozen=True):
    record: records.TopicPermission


class DeleteTopicPermission(_Command, frozen=True):
    """No exchange: all of the user's topic permissions in the vhost."""

    user: str
    vhost: str
    exchange: str | None = None


class PutExchange(_Command, frozen=True):
    record: records.Exchange
    if_absent: bool = True
    """A declaration must not change an exchange that somebody else declared a moment earlier."""


class DeleteExchange(_Command, frozen=True):
    """Takes the bindings from it and to it along."""

    vhost: str
    name: str


class PutQueue(_Command, frozen=True):
    record: records.Queue
    if_absent: bool = True
    """As for exchanges. False: replace the record (a new node, say); a queue_id of 0 keeps the old id."""


class DeleteQueue(_Command, frozen=True):
    """Takes the bindings to it along."""

    vhost: str
    name: str
    queue_id: int = 0
    """If not 0: only the queue of this id, not one declared anew under the same name."""


class PutBinding(_Command, frozen=True):
    record: records.Binding


class DeleteBinding(_Command, frozen=True):
    """The source, if it is auto-delete and this was its last binding, goes too."""

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
    """A node joins, starts, stops or is lost. News of an earlier life than the known one change nothing."""

    record: records.Node


class DeleteNode(_Command, frozen=True):
    """A node is no member any more."""

    name: str


class ViewChange(msgspec.Struct, frozen=True, array_like=True):
    """The next view of one queue, if nothing has changed since it was thought of."""

    queue_id: int
    view: View
    """Takes effect only if its version is one above the present one's."""
    waits_for: tuple[str, ...] = ()
    """The queue is down; the view then still names its last master first."""


class ChangeViews(_Command, frozen=True):
    """Rings change. Each change stands for itself."""

    changes: list[ViewChange]


class ReportJournal(_Command, frozen=True):
    """A node has opened its journal. The state compares it with what the node last reported."""

    node: str
    incarnation: int
    journal: str
    generation: int
    damaged: bool = False
    """Recovery dropped more than a torn tail."""
    proven: bool = True
    """The damage hit bytes that were synced; else a power failure may have caused it."""


class ReportOutdated(_Command, frozen=True):
    """A peer remembers more of a node's disk than the node has: an older copy of its data directory was put
    in place (`consensus.durable_states`)."""

    node: str
    start: int
    """Number that the node's process drew."""


class ReleaseCopies(_Command, frozen=True):
    """Copies of former members are not needed any more: (queue id, node, incarnation)."""

    copies: list[tuple[int, str, int]]


class ReportCopies(_Command, frozen=True):
    """Durable positions of copies of queues that are down, by queue id."""

    copies: list[tuple[int, CopyReport]]


class DeleteQueues(_Command, frozen=True):
    """Queues that were lost with the nodes that held them, by id. A node's end is no reason to auto-delete
    an exchange."""

    queue_ids: list[int]


class NoteConsumer(_Command, frozen=True):
    """A mirrored auto-delete queue has a consumer: if all it has are lost with its master, it goes too."""

    queue_id: int


class DropTransient(_Command, frozen=True):
    """Drops what does not survive a restart: of one node (queues that only it holds), or of all (None)."""

    node: str | None = None
    over: list[tuple[str, int]] | None = None
    """If given: nodes and their last lives, which are over, whatever the metadata says. If then nobody but
    `node` is left who might run, the whole cluster was down, and what does not survive that goes too."""


class TakeMessages(_Command, frozen=True):
    """A lease takes messages that its queue's master has set aside. Refused if another node is master by
    then, or the same one in a later life: it has given them to others."""

    queue_id: int
    epoch: int
    node: str
    incarnation: int
    lease: str
    take: records.LeaseTake
    user: str
    idle_ms: int


class SettleLease(_Command, frozen=True):
    """A lease is done with its takes up to a number, and with what of them is lower than a sequence."""

    queue_id: int
    lease: str
    number: int
    to: int


class ForgetSettled(_Command, frozen=True):
    """The queue is rid of these; packed stretches."""

    queue_id: int
    lease: str
    spans: bytes


class EndLease(_Command, frozen=True):
    """A lease is given up: what it has not settled is anybody's again."""

    queue_id: int
    lease: str
    number: int = -1
    """If not -1: only if there has been no take since this one."""


class PutJob(_Command, frozen=True):
    """A job has said something about itself."""

    record: records.Job


class DeleteJob(_Command, frozen=True):
    """A job is forgotten."""

    vhost: str
    name: str


class BeginBatch(_Command, frozen=True):
    """A producer begins a batch, or repeats one. The record holds the one digest of its contents."""

    record: records.Producer


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
)

_decoder: msgspec.msgpack.Decoder[Command] = msgspec.msgpack.Decoder(Command)


def encode(command: Command) -> bytes:
    """A command as a log entry."""
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
    """A log entry as a command; raises msgspec.DecodeError or ValidationError for anything else."""
    return metadata_encoding.decode(entry, _decoder, Command)
