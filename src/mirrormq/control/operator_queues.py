"""Queues that an operator declares: durable, not exclusive, with the checks and texts of a client's
declaration."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import arguments as queue_arguments
from mirrormq.broker import declaration_checks
from mirrormq.errors import AccessRefused, ResourceLocked
from mirrormq.metadata import commands, records
from mirrormq.replication.queue_placement import placed
from mirrormq.wire.fields import Field, Table, encode_table

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def declaration(broker: Broker, vhost: str, name: str, source: str | None) -> commands.PutQueue | None:
    """Return the command that creates a queue, as a copy of `source` if given; None if the queue exists
    already. Raise the error that a client would receive for an invalid declaration."""
    arguments: Table = {}
    if source is not None:
        arguments[queue_arguments.COPY_FROM] = Field("S", source.encode("utf-8", "surrogateescape"))
    record = records.Queue(vhost, name, arguments=encode_table(arguments)[4:], node=broker.settings.name)
    existing = broker.metadata.state.queues.get(record.key)
    if existing is not None:
        if existing.exclusive:
            raise ResourceLocked(declaration_checks.locked_text(vhost, name))
        declaration_checks.check_queue(existing, record, arguments)
        return None
    if name.startswith("amq."):
        raise AccessRefused(f"queue name '{name}' contains reserved prefix 'amq.*'")
    queue_arguments.validate(vhost, name, arguments, exclusive=False)
    broker.client_limits.check_queue(vhost, name)
    return commands.PutQueue(placed(broker, record, arguments))
