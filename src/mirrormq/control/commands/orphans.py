"""Commands for orphans: batches of messages that only the losing side of a healed partition had.

Every node stores its own batches (`cluster.orphan_store`). `list_orphans` shows those of all nodes; the other
commands act on the node that executes them (`-n`), because batch numbers are per node.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from mirrormq.cluster.orphan_restorer import OrphanRestorer
from mirrormq.cluster.orphan_store import OrphanTitle
from mirrormq.control.chunked_rows import yield_to_loop
from mirrormq.control.control_protocol import EXIT_USAGE, ControlError, Request
from mirrormq.control.node_fanout import rows_of_all_nodes
from mirrormq.control.node_interface import NodeShell
from mirrormq.queues.message import Message
from mirrormq.wire.content import body_of
from mirrormq.wire.fields import plain
from mirrormq.wire.properties import decode_properties

ALL = "all"


async def list_orphans(node: NodeShell, request: Request) -> list[dict[str, Any]]:
    """List the batches of all nodes, one row per batch."""
    live, me = node.live, node.settings.name

    def own() -> list[dict[str, Any]]:
        kept = live.orphans.kept
        return [
            {
                "node": me,
                "number": title.number,
                "vhost": title.queue.vhost,
                "queue": title.queue.name,
                "messages": kept.count(title.number),
                "message_bytes": kept.size_bytes(title.number),
                "set_aside_at": title.at_ms,
            }
            for title in kept.titles.values()
        ]

    return await rows_of_all_nodes(node, request, own)


def _chosen(orphans: OrphanRestorer, word: str) -> list[OrphanTitle]:
    """Return the batches that an argument selects: a number, or `all`."""
    titles = orphans.kept.titles
    if word == ALL:
        return list(titles.values())
    if not word.isdecimal():
        raise ControlError(f"'{word}' is no batch: say its number from list_orphans, or all", EXIT_USAGE)
    if int(word) not in titles:
        raise ControlError(f"this node keeps no batch {word}: see list_orphans", EXIT_USAGE)
    return [titles[int(word)]]


def restore_orphans(node: NodeShell, request: Request) -> str:
    """Republish batches to their queues regardless of the policy."""
    orphans = node.live.orphans
    chosen = _chosen(orphans, request.arguments[0])
    for title in chosen:
        orphans.restore(title.number)
    return f"{len(chosen)} batches are on their way back to their queues"


def delete_orphans(node: NodeShell, request: Request) -> str:
    """Delete batches permanently."""
    orphans = node.live.orphans
    chosen = _chosen(orphans, request.arguments[0])
    count = sum(orphans.kept.count(title.number) for title in chosen)
    for title in chosen:
        orphans.kept.delete(title.number)
    return f"{count} messages were deleted"


async def export_orphans(node: NodeShell, request: Request) -> str:
    """Write messages to a file, one JSON object per line; the messages stay in the store."""
    path = Path(request.arguments[0])
    if not path.is_absolute():
        raise ControlError("the file must be given by its whole path: the node writes it", EXIT_USAGE)
    chosen = _chosen(node.live.orphans, request.arguments[1] if len(request.arguments) > 1 else ALL)
    try:
        with _new_file(path) as file:
            count = sum([await _write(node, title.number, file) for title in chosen])
    except OSError as error:
        raise ControlError(f"{path} cannot be written: {error.strerror}", EXIT_USAGE) from None
    return f"{count} messages were written to {path}"


@contextmanager
def _new_file(path: Path) -> Iterator[TextIO]:
    """Open a new file, and delete it if writing fails: a partial file must not look complete."""
    file = path.open("x")
    try:
        with file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


async def _write(node: NodeShell, number: int, file: TextIO) -> int:
    """Write one batch, a few messages at a time. The node serves other requests meanwhile, and the
    batch may be deleted."""
    count = after = 0
    while messages := _behind(node.live.orphans, number, after):
        after = messages[-1].sequence
        count += len(messages)
        title = node.live.orphans.kept.titles[number]
        file.writelines(json.dumps(_line(title, message)) + "\n" for message in messages)
        await yield_to_loop()
    return count


def _behind(orphans: OrphanRestorer, number: int, after: int) -> list[Message]:
    return orphans.kept.read(number, after) if number in orphans.kept.titles else []


def _line(title: OrphanTitle, message: Message) -> dict[str, Any]:
    headers = decode_properties(message.properties, 0).headers or {}
    return {
        "node": title.node,
        "vhost": title.queue.vhost,
        "queue": title.queue.name,
        "sequence": message.sequence,
        "exchange": message.envelope.exchange,
        "routing_key": message.envelope.routing_key,
        "headers": json.loads(json.dumps(plain(headers), default=repr)),
        "properties": base64.b64encode(message.properties).decode(),
        "body": base64.b64encode(body_of(message.frames)).decode(),
    }


COMMANDS = {
    "list_orphans": list_orphans,
    "restore_orphans": restore_orphans,
    "delete_orphans": delete_orphans,
    "export_orphans": export_orphans,
}
