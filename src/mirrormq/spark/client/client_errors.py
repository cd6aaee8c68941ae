"""What can go wrong with a broker, by what helps: another node, or a person.

BrokerError
├── Lost      nobody answers, or the connection broke: another node, or a later time, may do better
└── Refused   the broker said no, with a code and a text: asking again gives the same answer
"""

from __future__ import annotations

CONNECTION_FORCED = 320
"""The code of a node that is being stopped."""


class BrokerError(Exception):
    """One sentence; never has credentials in it."""


class ConnectionLost(BrokerError):
    """The connection is gone or was never there."""


class RequestRefused(BrokerError):
    """The broker refused."""

    def __init__(self, code: int, text: str, reason: str = "") -> None:
        super().__init__(code, text, reason)
        self.code = code
        self.text = text
        self.reason = reason
        """Reason code of a range request (`ranges.reasons`); empty for any other refusal."""

    def __str__(self) -> str:
        return f"the broker refused: {self.text}"


def closed(code: int, text: str) -> BrokerError:
    """What a close from the broker means."""
    if code == CONNECTION_FORCED:
        return ConnectionLost(f"the broker closed the connection: {text}")
    return RequestRefused(code, text)
