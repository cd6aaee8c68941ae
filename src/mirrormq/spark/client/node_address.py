"""Node addresses with credentials. Their representation never shows a password."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote, urlsplit

PORTS = {"amqp": 5672, "amqps": 5671}

URI_FORM = "amqp://user:password@host:port/vhost"


@dataclass(frozen=True)
class NodeTls:
    """TLS options: verification of the broker's certificate, and the client's own; paths of PEM files."""

    ca_file: str | None = None
    certificate_file: str | None = None
    key_file: str | None = None
    verify: bool = True
    server_name: str | None = None
    """Name that the broker's certificate must match, if not the host of the URI."""

    def context(self) -> ssl.SSLContext:
        """Create a TLS context; raises OSError (ssl.SSLError is one) if a file is unusable."""
        context = ssl.create_default_context(cafile=self.ca_file)
        if not self.verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if self.certificate_file:
            context.load_cert_chain(self.certificate_file, self.key_file)
        return context


@dataclass(frozen=True)
class NodeAddress:
    """Address of one node."""

    host: str
    port: int
    vhost: str
    user: str = field(repr=False)
    password: str = field(repr=False)
    tls: NodeTls | None = None

    @property
    def where(self) -> str:
        """Host and port, for messages."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_uris(uris: str, vhost: str | None = None, tls: NodeTls | None = None) -> tuple[NodeAddress, ...]:
    """Parse a comma-separated list of nodes; ValueError describes the fault in one sentence."""
    found = [parse_uri(uri.strip(), vhost, tls) for uri in uris.split(",") if uri.strip()]
    if not found:
        raise ValueError(f"give at least one URI of the form {URI_FORM}")
    return tuple(found)


def parse_uri(uri: str, vhost: str | None = None, tls: NodeTls | None = None) -> NodeAddress:
    """Parse the URI of one node, with the usual defaults of AMQP clients."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError:
        raise ValueError(f"a URI's port must be a number up to 65535, as in {URI_FORM}") from None
    if parts.scheme not in PORTS:
        raise ValueError(f"a URI must begin with amqp:// or amqps://, as in {URI_FORM}")
    named = unquote(parts.path[1:]) if len(parts.path) > 1 else "/"
    return NodeAddress(
        host=parts.hostname or "127.0.0.1",
        port=port or PORTS[parts.scheme],
        vhost=named if vhost is None else vhost,
        user=unquote(parts.username or "guest"),
        password=unquote(parts.password or "guest"),
        tls=(tls or NodeTls()) if parts.scheme == "amqps" else None,
    )


def preferring(addresses: Sequence[NodeAddress], first: int) -> tuple[NodeAddress, ...]:
    """Rotate the nodes to begin at index `first`, to spread tasks over them."""
    first %= len(addresses)
    return (*addresses[first:], *addresses[:first])
