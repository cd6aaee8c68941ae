"""Errors of the Spark client, by remedy: retry on another node, or an operator's action.

BrokerError
├── ConnectionLost   no reply, or the connection broke: retry on another node, or later
└── RequestRefused   refused by the broker with a code and a text: a retry gives the same result
"""

from __future__ import annotations

CONNECTION_FORCED = 320
"""Reply code of a node that is being stopped."""


class BrokerError(Exception):
    """Base error; its text is one sentence without credentials."""


class ConnectionLost(BrokerError):
    """Connection broke or could not be opened."""


class RequestRefused(BrokerError):
    """Request refused by the broker."""

    def __init__(self, code: int, text: str, reason: str = "") -> None:
        super().__init__(code, text, reason)
        self.code = code
        self.text = text
        self.reason = reason
        """Reason code of a range request (`ranges.error_reasons`); empty for any other refusal."""

    def __str__(self) -> str:
        return f"the broker refused: {self.text}"


def closed(code: int, text: str) -> BrokerError:
    """Return the error for a close by the broker."""
    if code == CONNECTION_FORCED:
        return ConnectionLost(f"the broker closed the connection: {text}")
    return RequestRefused(code, text)
