"""Metadata snapshot: the whole state as one value, from which the log continues."""

from __future__ import annotations

import msgspec

from mirrormq.metadata import metadata_encoding
from mirrormq.metadata.link_records import Link
from mirrormq.metadata.records import (
    Binding,
    Exchange,
    GlobalParameter,
    Job,
    Lease,
    Node,
    OperatorPolicy,
    Parameter,
    Permission,
    Policy,
    Producer,
    Queue,
    TopicPermission,
    User,
    Vhost,
)


class Snapshot(msgspec.Struct, frozen=True, array_like=True):
    """Tables in the order in which their records depend on each other."""

    version: int
    access_version: int
    policy_version: int
    next_queue_id: int
    vhosts: list[Vhost]
    users: list[User]
    permissions: list[Permission]
    topic_permissions: list[TopicPermission]
    exchanges: list[Exchange]
    queues: list[Queue]
    bindings: list[Binding]
    policies: list[Policy]
    operator_policies: list[OperatorPolicy]
    parameters: list[Parameter]
    global_parameters: list[GlobalParameter]
    nodes: list[Node] = []
    leases: list[Lease] = []
    jobs: list[Job] = []
    producers: list[Producer] = []
    links: list[Link] = []


_decoder = msgspec.msgpack.Decoder(Snapshot)


def encode(snapshot: Snapshot) -> bytes:
    return metadata_encoding.encode(snapshot)


def decode(blob: bytes) -> Snapshot:
    """Decode the result of `encode`. Raises msgspec.DecodeError for any other data."""
    return metadata_encoding.decode(blob, _decoder, Snapshot)
