"""Command `add_queue NAME mirroring=JSON`: declare a queue and its named copies together.

RabbitMQ has no such command. Example:

    add_queue myqueue mirroring='{"copies": [{"src_name": "otherq", "dst_tag": ""}]}'

declares the durable queue `myqueue`, and for each entry a durable queue that receives a copy of each
message that `myqueue` receives (`x-copy-from`). The name of the copy is `src_name` followed by `dst_tag`.
An existing queue with equal properties stays unchanged. If a queue exists with other properties, the command
fails and changes nothing.
"""

from __future__ import annotations

import msgspec

from mirrormq.control.commands.command_checks import vhost_of
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_USAGE, ControlError, Request
from mirrormq.control.node_interface import ControlledNode

MIRRORING = "mirroring="
EXAMPLE = """mirroring='{"copies": [{"src_name": "otherq", "dst_tag": ""}]}'"""

NAME_BYTES_MAX = 255
"""Longest short string of AMQP."""


class Copy(msgspec.Struct, forbid_unknown_fields=True):
    """Entry of `copies`."""

    src_name: str
    dst_tag: str = ""


class Mirroring(msgspec.Struct, forbid_unknown_fields=True):
    """JSON value of `mirroring=`."""

    copies: list[Copy] = []


def copies_of(name: str, words: list[str]) -> list[str]:
    """Return the names of the copies that the arguments after the queue's name request."""
    if not words:
        return []
    if len(words) > 1 or not words[0].startswith(MIRRORING):
        raise ControlError(f"Only mirroring=JSON may follow the queue's name: {EXAMPLE}", EXIT_USAGE)
    try:
        mirroring = msgspec.json.decode(words[0].removeprefix(MIRRORING), type=Mirroring)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ControlError(
            f"The value of mirroring= is invalid: {error}. Example: {EXAMPLE}", EXIT_DATA
        ) from None
    names = [copy.src_name + copy.dst_tag for copy in mirroring.copies]
    if "" in names:
        raise ControlError("A copy must have a name: its src_name is empty.", EXIT_DATA)
    if name in names:
        raise ControlError(f"Queue '{name}' cannot be a copy of itself: give it another src_name.", EXIT_DATA)
    if len(set(names)) < len(names):
        raise ControlError("Two copies have the same name: change a src_name or dst_tag.", EXIT_DATA)
    return names


def add_queue(node: ControlledNode, request: Request) -> str:
    """Declare the queue and its copies; return a summary."""
    name, *words = request.arguments
    names = copies_of(name, words)
    for queue_name in (name, *names):
        if not queue_name or len(queue_name.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise ControlError(f"A queue's name must have between 1 and {NAME_BYTES_MAX} bytes.", EXIT_DATA)
    vhost_of(node, request.vhost)
    sources = {name: None, **dict.fromkeys(names, name)}
    commands = [
        node.live.declaration(request.vhost, queue_name, source) for queue_name, source in sources.items()
    ]
    with node.metadata.together():
        for command in commands:
            if command is not None:
                node.metadata.write(command)
    return f"Queue '{name}' is declared" + (f", copied to {', '.join(names)}" if names else "")


COMMANDS = {"add_queue": add_queue}
