"""Listener for other nodes: address, cookie, failure detector timing and TLS come from the settings."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

from mirrormq.cluster.cluster_messages import ClusterMessage
from mirrormq.cluster.command_messages import CommandReply, CommandRequest
from mirrormq.cluster.controller import ControllerMessage
from mirrormq.config.settings import Address, Settings
from mirrormq.errors import ConfigurationError, start_error
from mirrormq.peers.failure_detector import DetectorTiming
from mirrormq.peers.peer_handshake import PeerIdentity
from mirrormq.remote.remote_messages import RemoteMessage
from mirrormq.replication.ring_messages import RingBatch
from mirrormq.runtime.certificate_files import CertificateFiles
from mirrormq.runtime.peer_links import LinkTls, PeerLinkOptions, PeerLinks

if TYPE_CHECKING:
    from mirrormq.runtime.node import Node


LinkMessage = ClusterMessage | ControllerMessage | CommandRequest | CommandReply | RemoteMessage | RingBatch


def advertised(settings: Settings) -> str:
    """Return the address that other nodes use to reach this one; empty if it does not listen for them."""
    if settings.cluster_listener is None:
        return ""
    chosen = settings.cluster_advertised
    return str(chosen or Address(settings.name.partition("@")[2], settings.cluster_listener.port))


async def open_links(node: Node) -> None:
    """Listen for other nodes, if the settings name a cluster listener."""
    settings = node.settings
    address = settings.cluster_listener
    if address is None:
        return
    ticktime = settings.net_ticktime_s
    options = PeerLinkOptions(
        PeerIdentity(settings.name, node.cluster_node.member.cluster_id),
        settings.cookie.encode(),
        DetectorTiming() if ticktime is None else DetectorTiming.of_net_ticktime(ticktime),
        _tls(node),
        LinkMessage,
    )
    peer_links = PeerLinks(options, node.cluster_node, node.log)
    host = "127.0.0.1" if address.host == "localhost" else address.host
    try:
        await peer_links.start(host, address.port)
    except OSError as error:
        raise start_error(
            f"Cannot listen on {address} for other nodes: {error.strerror}. Choose another address with "
            "--cluster, or none.",
            error,
        ) from error
    node.cluster_node.connect(peer_links)


def _tls(node: Node) -> LinkTls | None:
    links = node.settings.link_tls
    if links.cacertfile is None or links.certfile is None or links.keyfile is None:
        return None
    files = CertificateFiles(links.certfile, links.keyfile, links.password, links.cacertfile)
    contexts = link_contexts(files)
    for context in (contexts.server, contexts.client):
        node.certificates.watch(context, files)
    return contexts


def link_contexts(files: CertificateFiles) -> LinkTls:
    """Return the TLS contexts for accepting and dialling. Raise ConfigurationError if the files are
    unusable."""
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        for context in (server, client):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            files.load(context)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"The TLS files for links between nodes cannot be used: {error}") from error
    return LinkTls(server, client)
