"""Admin socket of HAProxy: one command per connection."""

from __future__ import annotations

import socket

from mirrormq.migration.proxy_steps import ProxyServer, read_servers
from mirrormq.migration_io.broker_api import MigrationError, Unreachable

TIMEOUT_S = 10.0
REPLY_BYTES = 65_536
REPLY_BYTES_MAX = 64 * 1024 * 1024
"""Longest reply: `show stat` with some hundred thousand servers."""


class HaproxySocket:
    """Socket at a path, or at HOST:PORT."""

    def __init__(self, address: str) -> None:
        self._address = address

    def command(self, text: str) -> str:
        """Send a command; return the reply."""
        try:
            with self._connect() as connection:
                connection.sendall(text.encode() + b"\n")
                reply = bytearray()
                while part := connection.recv(REPLY_BYTES):
                    reply += part
                    if len(reply) > REPLY_BYTES_MAX:
                        raise ValueError(f"its reply is longer than {REPLY_BYTES_MAX} bytes")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise Unreachable(
                f"HAProxy's socket {self._address} does not reply ({reason}); it needs 'stats socket "
                f"{self._address} level admin' in its global section"
            ) from None
        return reply.decode("utf-8", "replace")

    def change(self, text: str) -> None:
        """Send a command that must succeed: HAProxy replies with an empty line."""
        reply = self.command(text).strip()
        if reply:
            raise MigrationError(f"HAProxy refuses '{text}': {reply}")

    def servers(self) -> list[ProxyServer]:
        """Return all servers; raises ProxyReplyError if the reply cannot be read."""
        return read_servers(self.command("show servers state"), self.command("show stat"))

    def _connect(self) -> socket.socket:
        host, colon, port = self._address.rpartition(":")
        if colon and port.isdecimal() and "/" not in self._address:
            return socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(TIMEOUT_S)
        try:
            connection.connect(self._address)
        except OSError:
            connection.close()
            raise
        return connection
