"""Queues that an operator declares, not a client: durable, nobody's own, with the same checks and texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mirrormq.broker import arguments as queue_arguments
from mirrormq.broker import declaration_checks
from mirrormq.broker.queue_placement import placed
from mirrormq.errors import AccessRefused, ResourceLocked
from mirrormq.metadata import commands, records
from mirrormq.wire.fields import Field, Table, encode_table

if TYPE_CHECKING:
    from mirrormq.broker.broker import Broker


def declaration(broker: Broker, vhost: str, name: str, source: str | None) -> commands.PutQueue | None:
    """The command that makes a queue, a copy of `source` if there is one; None if it is there already.

    Raises what a client would be told that declares a queue it cannot have.
    """
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
