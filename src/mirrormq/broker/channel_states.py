"""Channel states, and the transitions between them.

`channels.transactions` enters confirm mode or makes a channel transactional, until the channel is closed.
Errors, closes and the loss of the socket lead to the last two states.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final


class ChannelState(Enum):
    """State of a channel, confirm and transaction mode included."""

    RUNNING = "running"
    CONFIRMING = "confirming"
    TRANSACTIONAL = "transactional"
    CLOSING = "closing"
    CLOSED = "closed"


RUNNING: Final = ChannelState.RUNNING
CONFIRMING: Final = ChannelState.CONFIRMING
TRANSACTIONAL: Final = ChannelState.TRANSACTIONAL
CLOSING: Final = ChannelState.CLOSING
CLOSED: Final = ChannelState.CLOSED
"""States as constants, which compiled code finds without a search."""

TRANSITIONS: Final[Mapping[ChannelState, frozenset[ChannelState]]] = {
    RUNNING: frozenset({CONFIRMING, TRANSACTIONAL, CLOSING, CLOSED}),
    CONFIRMING: frozenset({CLOSING, CLOSED}),
    TRANSACTIONAL: frozenset({CLOSING, CLOSED}),
    CLOSING: frozenset({CLOSED}),
    CLOSED: frozenset(),
}
"""States that may follow a state. CLOSING: channel.close was sent after an error, and only the client's
close-ok or close has an effect. CLOSED: the number of the channel is free."""
