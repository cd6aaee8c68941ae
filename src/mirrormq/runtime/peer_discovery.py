"""Peer discovery over the network: DNS, and the API of Kubernetes, with RabbitMQ's settings.

    dns   addresses of one host name, such as a headless service; the reverse lookup gives each node's host
    k8s   addresses of a service's Endpoints object; they are the hosts, or their host names are

The part of a node's name before `@` is the same on all nodes, as is the port of the cluster listener.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
from typing import TYPE_CHECKING, Any

from mirrormq.cluster.discovered_peers import DiscoveryFailed, hosts_of_endpoints
from mirrormq.config.settings import CLUSTER_PORT, Address, PeerDiscovery, Settings

if TYPE_CHECKING:
    import urllib.request

REQUEST_TIMEOUT_S = 10.0
"""Time limit of a request to the API: RabbitMQ's."""
ENDPOINTS_BYTES_MAX = 16 * 1024 * 1024
"""Largest Endpoints object: Kubernetes limits one to 1,000 addresses, some hundred kilobytes."""


async def discovered_peers(settings: Settings) -> dict[str, str]:
    """Return all nodes that discovery shows, this one included, by name with their addresses. Raises
    DiscoveryFailed."""
    discovery = settings.discovery
    if discovery.backend == "dns":
        hosts = await _resolved_hosts(discovery.dns_hostname)
    else:
        hosts = await asyncio.to_thread(_endpoint_hosts, discovery)
    prefix = settings.name.partition("@")[0]
    port = CLUSTER_PORT if settings.cluster_listener is None else settings.cluster_listener.port
    return {f"{prefix}@{host}": str(Address(host, port)) for host in hosts}


async def _resolved_hosts(hostname: str) -> list[str]:
    """Resolve a host name, and each of its addresses back into a host name."""
    loop = asyncio.get_running_loop()
    try:
        resolved = await loop.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
    except OSError as error:
        raise DiscoveryFailed(f"host name {hostname} cannot be resolved: {error.strerror or error}") from None
    hosts = set()
    for address in sorted({str(ends[0]) for *_, ends in resolved}):
        try:
            host, _ = await loop.getnameinfo((address, 0), socket.NI_NAMEREQD)
        except OSError:
            continue  # As in RabbitMQ, an address without a name is no node.
        hosts.add(host.rstrip("."))
    return sorted(hosts)


def _endpoint_hosts(discovery: PeerDiscovery) -> list[str]:
    """Ask the API for the Endpoints object of the service. Runs in a thread."""
    import urllib.request  # Imported here: it brings 1.4 MB that a node without this backend does not need.

    try:
        token = discovery.k8s_token_path.read_text().strip()
        namespace = discovery.k8s_namespace_path.read_text().strip()
        context = None
        if discovery.k8s_scheme == "https":
            context = ssl.create_default_context(cafile=str(discovery.k8s_cert_path))
    except OSError as error:
        raise DiscoveryFailed(f"the service account cannot be read: {error}") from None
    where = f"{discovery.k8s_scheme}://{discovery.k8s_host}:{discovery.k8s_port}"
    path = f"/api/v1/namespaces/{namespace}/endpoints/{discovery.k8s_service_name}"
    request = urllib.request.Request(f"{where}{path}", headers={"authorization": f"Bearer {token}"})
    document = _fetched(request, context)
    return hosts_of_endpoints(document, discovery.k8s_address_type, discovery.k8s_hostname_suffix)


def _fetched(request: urllib.request.Request, context: ssl.SSLContext | None) -> Any:
    import urllib.error
    import urllib.request

    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    opener = urllib.request.build_opener(*handlers)
    try:
        with opener.open(request, timeout=REQUEST_TIMEOUT_S) as reply:
            return json.loads(reply.read(ENDPOINTS_BYTES_MAX))
    except urllib.error.HTTPError as error:
        hint = {
            401: "; the token is not valid",
            403: "; the service account needs the verb 'get' for endpoints",
            404: "; there is no service of that name in this namespace",
        }
        raise DiscoveryFailed(
            f"{request.full_url} answers {error.code} {error.reason}{hint.get(error.code, '')}"
        ) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise DiscoveryFailed(f"{request.full_url} cannot be read: {reason}") from None
