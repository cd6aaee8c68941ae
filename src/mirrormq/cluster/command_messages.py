"""Control commands between nodes: one node requests a command, the other returns its result.

The documents are those of the control socket (`control/control_protocol.py`), so a command works the same
on the local node and on another one.
"""

from __future__ import annotations

import msgspec


class CommandRequest(msgspec.Struct, frozen=True, array_like=True, tag="verb-asked"):
    """Request to execute a control command."""

    number: int
    """Number of the request on the requesting node."""
    request: bytes


class CommandReply(msgspec.Struct, frozen=True, array_like=True, tag="verb-answered"):
    """Result of a control command."""

    number: int
    reply: bytes
