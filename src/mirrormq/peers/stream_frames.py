"""Messages of streams between incarnations of nodes.

They are not in `peers.stream`, which is compiled: a compiled class takes no type parameter at run time, and
msgspec decodes by `StreamFrame[Item]`.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

Item = TypeVar("Item")


class StreamHello(msgspec.Struct, frozen=True, array_like=True, tag="remote.hello"):
    """First message on a link: incarnation of the sender, and the position of the stream."""

    incarnation: int
    your_incarnation: int
    received: int
    """Number of frames of incarnation `your_incarnation` that have arrived."""
    answer: bool = False
    """Reply to a StreamHello, which needs no reply itself."""


class StreamFrame(msgspec.Struct, Generic[Item], frozen=True, array_like=True, tag="remote.parcel"):
    """Ordered items of a stream."""

    number: int
    """Frame number 1, 2, 3 …; 0 if it carries no items and only acknowledges frames."""
    received: int
    """Number of frames that have arrived from the other side."""
    items: list[Item]
