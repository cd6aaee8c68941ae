"""TLS context and socket of a client connection, from the options of its URI."""

from __future__ import annotations

import socket
import ssl

from mirrormq.client.amqp_uri import AmqpUri, ClientTls
from mirrormq.client.client_events import ChannelClosed, Closed, CloseReason


class ClientError(Exception):
    """Connection or channel that ended or could not be opened; one sentence without credentials."""


class ConnectionEnded(ClientError):
    """Connection is unusable; `closed.reason` is the cause as a code."""

    def __init__(self, closed: Closed) -> None:
        super().__init__(closed.text)
        self.closed = closed


class ChannelEnded(ClientError):
    """Channel closed by the broker; the connection stays usable."""

    def __init__(self, closed: ChannelClosed) -> None:
        super().__init__(closed.text)
        self.closed = closed


def client_context(tls: ClientTls) -> ssl.SSLContext:
    """Create a client context; raises OSError (ssl.SSLError is one) if a file is unusable."""
    context = ssl.create_default_context(cafile=tls.ca_file)
    if not tls.verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif not tls.send_server_name:
        context.check_hostname = False
    if tls.certificate_file:
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password)
    return context


def server_name(uri: AmqpUri) -> str | None:
    """Return the name for SNI and certificate verification."""
    tls = uri.tls
    return (tls.server_name or uri.host) if tls is not None and tls.send_server_name else None


def tls_context(uri: AmqpUri) -> ssl.SSLContext | None:
    """Return the context for a URI, None for amqp://; raises ConnectionEnded."""
    if uri.tls is None:
        return None
    try:
        return client_context(uri.tls)
    except OSError as error:
        text = f"the files of the TLS options cannot be used ({error})"
        raise ConnectionEnded(Closed(CloseReason.TLS_FILES, text)) from None


def connect_error(uri: AmqpUri, error: OSError) -> ConnectionEnded:
    """Return the error for a failed connection attempt."""
    if isinstance(error, ssl.SSLError):
        text = f"no TLS with {uri.where}: {error.reason or error}"
        return ConnectionEnded(Closed(CloseReason.TLS_FAILED, text))
    text = f"no broker answers at {uri.where} ({error.strerror or error}); is a broker running there?"
    return ConnectionEnded(Closed(CloseReason.CONNECT_FAILED, text))


def open_socket(uri: AmqpUri, timeout_s: float) -> socket.socket:
    """Connect a blocking socket, with TLS for amqps://; raises ConnectionEnded."""
    context = tls_context(uri)
    try:
        plain = socket.create_connection((uri.host, uri.port), timeout_s)
    except OSError as error:
        raise connect_error(uri, error) from None
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        if context is None:
            return plain
        return context.wrap_socket(plain, server_hostname=server_name(uri))
    except OSError as error:
        plain.close()
        raise connect_error(uri, error) from None
