"""Listening sockets for clients: plain or TLS, on one address or on both loopback addresses."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import TYPE_CHECKING, cast

from mirrormq.config.settings import Address
from mirrormq.errors import start_error
from mirrormq.runtime.amqp_socket import AmqpSocket
from mirrormq.runtime.proxied_tls import ProxiedTlsListener
from mirrormq.runtime.tls import server_context

if TYPE_CHECKING:
    from mirrormq.runtime.application import Application

Listener = asyncio.Server | ProxiedTlsListener


async def listen(node: Application, address: Address, *, tls: bool) -> list[Listener]:
    """Listen on an address. `localhost` is the IPv4 loopback address, and the IPv6 one if it exists."""
    context = server_context(node.settings.tls, node.node.certificates) if tls else None
    hosts = ["127.0.0.1", "::1"] if address.host == "localhost" else [address.host or None]
    opened: list[Listener] = []
    for host in hosts:
        try:
            opened.append(await _open(node, host, address.port, context))
        except OSError as error:
            if opened and host == "::1":
                continue
            text = f"Cannot listen on {host}:{address.port}: {error.strerror}."
            raise start_error(text, error) from error
    return opened


async def _open(node: Application, host: str | None, port: int, context: ssl.SSLContext | None) -> Listener:
    settings = node.settings
    if context is not None and settings.proxy_protocol:
        family = socket.AF_INET6 if host and ":" in host else socket.AF_INET
        listening = socket.create_server((host or "", port), backlog=settings.tcp_backlog, family=family)
        listening.setblocking(False)
        return ProxiedTlsListener(node, context, listening)
    return await asyncio.get_running_loop().create_server(
        lambda: cast("asyncio.Protocol", AmqpSocket(node, tls=context is not None)),
        host,
        port,
        ssl=context,
        backlog=settings.tcp_backlog,
        ssl_handshake_timeout=settings.ssl_handshake_timeout_s if context is not None else None,
    )
