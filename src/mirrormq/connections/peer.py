"""Who is at the other end of a connection."""

from __future__ import annotations

from typing import NamedTuple


class Peer(NamedTuple):
    """Addresses as the socket (or the PROXY header) gives them, and what TLS has shown."""

    host: str
    port: int
    server_host: str = ""
    server_port: int = 0
    is_loopback: bool = True
    tls: bool = False
    certificate_user: str | None = None
    """The user that a verified client certificate speaks for."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port} -> {self.server_host}:{self.server_port}"
