"""One node asks another to carry out a verb and to say what came of it.

The documents are those of the control socket (`control/control_protocol.py`): what can be asked of a node
from its own machine can be asked the same way from the next one.
"""

from __future__ import annotations

import msgspec


class CommandRequest(msgspec.Struct, frozen=True, array_like=True, tag="verb-asked"):
    """Please do this."""

    number: int
    """Which question of the asker's this is."""
    request: bytes


class CommandReply(msgspec.Struct, frozen=True, array_like=True, tag="verb-answered"):
    """What came of it."""

    number: int
    reply: bytes
