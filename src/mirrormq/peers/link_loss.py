"""Loss of a peer link: a reason code for decisions, a text for the log."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class LossReason(Enum):
    """Reason for the end of a connection to a peer."""

    SILENT = "silent"
    """The failure detector heard nothing for its timeout."""
    CROSSING = "crossing"
    """Both nodes dialled each other; the other connection stays."""
    ENDED = "ended"
    """Either side closed the connection, it broke, or the handshake failed."""


class LinkLoss(NamedTuple):
    """End of a connection to a peer."""

    text: str
    reason: LossReason = LossReason.ENDED
    silent_ms: int = 0
    """Time without a frame from the peer; 0 unless the reason is SILENT."""

    @property
    def silent(self) -> bool:
        """Whether the failure detector closed the link."""
        return self.reason is LossReason.SILENT


def silence(silent_ms: int) -> LinkLoss:
    """Return the loss of a link whose peer was silent for `silent_ms`."""
    return LinkLoss(f"nothing heard for {silent_ms / 1000:.1f} s", LossReason.SILENT, silent_ms)


CROSSING = LinkLoss("we dial each other; the other connection stays", LossReason.CROSSING)
"""End of the connection that is given up when both nodes dial each other."""
