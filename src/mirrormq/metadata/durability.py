"""Durability of commands. A single node need not force a command to disk that a restart undoes anyway."""

from __future__ import annotations

from mirrormq.metadata import commands as c
from mirrormq.metadata.state import MetadataState
from mirrormq.ranges.range_protocol import RUNNING


def outlives_restart(state: MetadataState, command: c.Command) -> bool:
    """Return whether the command changes anything that survives a restart, judged by the present state."""
    match command:
        case c.PutQueue():
            return command.record.survives_restart
        case c.DeleteQueue():
            return _lasts(state, command.vhost, "queue", command.name)
        case c.PutExchange():
            return command.record.durable
        case c.DeleteExchange():
            return _lasts(state, command.vhost, "exchange", command.name)
        case c.PutBinding():
            binding = command.record
            return _binding_lasts(
                state, binding.vhost, binding.source, binding.destination_kind, binding.destination
            )
        case c.DeleteBinding():
            return _binding_lasts(
                state, command.vhost, command.source, command.destination_kind, command.destination
            )
        case c.DropTransient():
            return False
        case c.PutJob():
            # A restart does not undo it, but a running job soon reports again, so no sync is needed.
            return command.record.state != RUNNING
    return True


def _binding_lasts(state: MetadataState, vhost: str, source: str, kind: str, destination: str) -> bool:
    return _lasts(state, vhost, "exchange", source) and _lasts(state, vhost, kind, destination)


def _lasts(state: MetadataState, vhost: str, kind: str, name: str) -> bool:
    if kind == "queue":
        queue = state.queues.get((vhost, name))
        return queue is not None and queue.survives_restart
    exchange = state.exchanges.get((vhost, name))
    return exchange is not None and exchange.durable
