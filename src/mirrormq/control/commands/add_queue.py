"""`add_queue NAME mirroring=JSON`: a queue and named copies of it, in one go.

RabbitMQ never had this verb; a text that this project started from describes it:

    add_queue myqueue mirroring='{"copies": [{"src_name": "otherq", "dst_tag": ""}]}'

declares the durable queue `myqueue`, and for each entry a durable queue that gets a copy of what `myqueue`
gets (`x-copy-from`). Such a queue is called `src_name` with `dst_tag` behind it. What is there already and
is the same is left as it is; what is there and is another thing is refused, and then nothing is changed.
"""

from __future__ import annotations

import msgspec

from mirrormq.control.commands.command_checks import vhost_of
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_USAGE, ControlError, Request
from mirrormq.control.node_interface import ControlledNode

MIRRORING = "mirroring="
EXAMPLE = """mirroring='{"copies": [{"src_name": "otherq", "dst_tag": ""}]}'"""

NAME_BYTES_MAX = 255
"""What fits into a short string of AMQP."""


class Copy(msgspec.Struct, forbid_unknown_fields=True):
    """One entry of `copies`."""

    src_name: str
    dst_tag: str = ""


class Mirroring(msgspec.Struct, forbid_unknown_fields=True):
    """The JSON behind `mirroring=`."""

    copies: list[Copy] = []


def copies_of(name: str, words: list[str]) -> list[str]:
    """The names of the copies that the words behind a queue's name ask for."""
    if not words:
        return []
    if len(words) > 1 or not words[0].startswith(MIRRORING):
        raise ControlError(f"Only mirroring=JSON may stand behind the queue's name: {EXAMPLE}", EXIT_USAGE)
    try:
        mirroring = msgspec.json.decode(words[0].removeprefix(MIRRORING), type=Mirroring)
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise ControlError(f"{error}. It is written as in {EXAMPLE}", EXIT_DATA) from None
    names = [copy.src_name + copy.dst_tag for copy in mirroring.copies]
    if "" in names:
        raise ControlError("A copy must have a name: its src_name is empty.", EXIT_DATA)
    if name in names:
        raise ControlError(f"Queue '{name}' cannot be a copy of itself: give it another src_name.", EXIT_DATA)
    if len(set(names)) < len(names):
        raise ControlError("Two copies have the same name: change a src_name or dst_tag.", EXIT_DATA)
    return names


def add_queue(node: ControlledNode, request: Request) -> str:
    """Says what there is now."""
    name, *words = request.arguments
    names = copies_of(name, words)
    for each in (name, *names):
        if not each or len(each.encode("utf-8", "surrogateescape")) > NAME_BYTES_MAX:
            raise ControlError(f"A queue's name has between 1 and {NAME_BYTES_MAX} bytes.", EXIT_DATA)
    vhost_of(node, request.vhost)
    sources = {name: None, **dict.fromkeys(names, name)}
    commands = [node.live.declaration(request.vhost, each, of) for each, of in sources.items()]
    with node.metadata.together():
        for command in commands:
            if command is not None:
                node.metadata.write(command)
    return f"Queue '{name}' is there" + (f", copied to {', '.join(names)}" if names else "")


COMMANDS = {"add_queue": add_queue}
