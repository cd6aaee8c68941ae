"""Commands `mirrormq haproxy-config` and `mirrormq keepalived-config`: one address in front of a cluster.

Any node serves any client, so a proxy may choose any node that is alive. A TCP connection does not prove
that: the kernel accepts connections for a frozen process. The check therefore speaks AMQP: it sends a
protocol header and expects the first frame of a node. When a node fails the check, the proxy closes its
clients' connections at once, and they reconnect to another node.

The proxy itself is a single point of failure. keepalived on two hosts moves an address to the host where
the proxy runs.
"""

from __future__ import annotations

import ipaddress
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from mirrormq.cli.local_ports import PORT_MAX
from mirrormq.cli.processes import ClusterError, LocalCluster

ADDRESS = re.compile(r"(?:\*|[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}")

USUAL_NODES = [f"127.0.0.1:{port}" for port in (5672, 5673, 5674)]
"""Nodes that `make up` starts."""

PRIORITIES = {"MASTER": 100, "BACKUP": 90}
ROUTES = Path("/proc/net/route")
USUAL_INTERFACE = "eth0"
DEFAULT_ROUTE = "00000000"

HAPROXY = """\
# One address for the clients of {count} nodes. Check it: haproxy -c -f FILE. Run it: haproxy -f FILE.
# The limit of open files determines the largest number of connections.
defaults
    mode tcp
    timeout connect 5s
    # Heartbeats are more frequent than this; they distinguish an idle client from a dead one.
    timeout client 3h
    timeout server 3h
    timeout check 2s
    option clitcpka
    option srvtcpka

listen amqp
    bind {bind}
    balance leastconn
    # A live node replies to the AMQP 0-9-1 header; a frozen one accepts connections and stays silent.
    option tcp-check
    tcp-check connect{check_header}
    tcp-check send-binary 414d515000000901
    tcp-check expect binary 01000000
    default-server inter 2s fall 2 rise 2 init-addr last,libc,none on-marked-down shutdown-sessions
{servers}
"""

HAPROXY_MANAGEMENT = """
listen management
    bind {bind}
    mode http
    timeout connect 5s
    balance first
    default-server inter 2s fall 2 rise 2 init-addr last,libc,none
{servers}
"""

KEEPALIVED = """\
# Moves {address} to the host where haproxy runs. Check it: keepalived -t -f FILE.
# On the other host: the same command with --backup{peer_hint}.
global_defs {{
    router_id mirrormq
}}

vrrp_track_process haproxy {{
    process haproxy
    quorum 1
    delay 1
}}

vrrp_instance mirrormq {{
    state {state}
    interface {interface}
    virtual_router_id {router}
    priority {priority}
    advert_int 1
{unicast}    virtual_ipaddress {{
        {address}
    }}
    track_process {{
        haproxy
    }}
}}
"""


EXPOSED = (
    "WARNING: {} is open to other machines, and the nodes behind it see all clients as local: guest can "
    "log in from anywhere. Run 'mirrormqctl delete_user guest', or bind to 127.0.0.1."
)


class ProxyConfigError(Exception):
    """Invalid option, with a sentence for the terminal."""


def haproxy_config(
    nodes: Annotated[
        list[str] | None, typer.Argument(help="HOST:PORT of the nodes; defaults to those of --data.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Directory of a local cluster.")] = Path("var"),
    bind: Annotated[str, typer.Option(help="HOST:PORT for clients.")] = "127.0.0.1:5670",
    management: Annotated[
        list[str] | None, typer.Option(help="HOST:PORT of a node's HTTP API; may be repeated.")
    ] = None,
    management_bind: Annotated[str, typer.Option(help="HOST:PORT of the HTTP API.")] = "127.0.0.1:15670",
    proxy_protocol: Annotated[
        bool,
        typer.Option(
            "--proxy-protocol", help="Use the PROXY protocol, for nodes with `proxy_protocol = true`."
        ),
    ] = False,
) -> None:
    """Print a HAProxy configuration that distributes clients over the nodes of a cluster.

    The default nodes are those of the local cluster in --data, else the three of `make up`.

    \b
    Example:
      mirrormq haproxy-config alpha.example:5672 beta.example:5672 --bind '*:5670' > haproxy.cfg
      haproxy -f haproxy.cfg
    """
    try:
        amqp, apis = (nodes, management or []) if nodes else _nodes_of(data, management)
        text = haproxy_text(amqp, apis, bind, management_bind, proxy_protocol)
        exposed = [] if proxy_protocol else _exposing(bind, amqp)
        exposed += _exposing(management_bind, apis)
    except (ClusterError, ProxyConfigError) as error:
        _refuse("haproxy-config", str(error))
    for frontend in exposed:
        print(f"mirrormq haproxy-config: {EXPOSED.format(frontend)}", file=sys.stderr)
    print("".join(f"# {EXPOSED.format(frontend)}\n" for frontend in exposed) + text, end="")


def _exposing(bind: str, servers: list[str]) -> list[str]:
    """Return the frontend if remote hosts reach it and a server behind it would see them as local clients."""
    return [bind] if not _is_loopback(bind) and any(map(_is_loopback, servers)) else []


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def haproxy_text(
    nodes: list[str], apis: list[str], bind: str, management_bind: str, proxy_protocol: bool
) -> str:
    """Return HAProxy's configuration."""
    send = " send-proxy-v2" if proxy_protocol else ""
    text = HAPROXY.format(
        count=len(nodes),
        bind=_address(bind, "--bind"),
        check_header=" send-proxy" if proxy_protocol else "",
        servers=_servers(nodes, send),
    )
    if apis:
        text += HAPROXY_MANAGEMENT.format(
            bind=_address(management_bind, "--management-bind"), servers=_servers(apis, "")
        )
    return text


def _nodes_of(data: Path, management: list[str] | None) -> tuple[list[str], list[str]]:
    if not (data / "cluster.json").exists():
        return USUAL_NODES, management or []
    found = LocalCluster.load(data).nodes
    apis = [f"127.0.0.1:{node.management_port}" for node in found]
    return [f"127.0.0.1:{node.amqp_port}" for node in found], management or apis


def _servers(addresses: list[str], flags: str) -> str:
    lines = [
        f"    server node{number} {_address(address, 'NODES')}{flags} check"
        for number, address in enumerate(addresses, 1)
    ]
    return "\n".join(lines)


def _address(text: str, flag: str) -> str:
    """Return a validated HOST:PORT; the pattern excludes characters that would inject words or lines."""
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= PORT_MAX:
        raise ProxyConfigError(f"{flag}: {text!r} must be HOST:PORT.")
    return text


def keepalived_config(
    address: Annotated[
        str, typer.Option(help="Virtual address with its prefix length.")
    ] = "192.168.1.100/24",
    interface: Annotated[
        str | None, typer.Option(help="Network interface; defaults to that of the default route.")
    ] = None,
    backup: Annotated[bool, typer.Option("--backup", help="Configure the standby host.")] = False,
    router: Annotated[
        int, typer.Option(min=1, max=255, help="VRRP router id; equal on both hosts, unique in the network.")
    ] = 51,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Address of the other host, for networks without multicast."),
    ] = None,
) -> None:
    """Print a keepalived configuration that moves an address to a host where HAProxy runs.

    \b
    Example:
      mirrormq keepalived-config --address 10.0.0.100/24 --interface eth0 > keepalived.conf
      mirrormq keepalived-config --address 10.0.0.100/24 --interface eth0 --backup > keepalived.conf
    """
    try:
        ipaddress.ip_interface(address)
        for other in peer or []:
            ipaddress.ip_address(other)
    except ValueError as error:
        _refuse("keepalived-config", f"{error}.")
    if interface is not None and not INTERFACE.fullmatch(interface):
        _refuse("keepalived-config", f"{interface!r} is not a valid name of a network interface.")
    print(keepalived_text(address, interface or _usual_interface(), backup, router, peer or []), end="")


def keepalived_text(address: str, interface: str, backup: bool, router: int, peers: list[str]) -> str:
    """Return keepalived's configuration."""
    state = "BACKUP" if backup else "MASTER"
    listed = "".join(f"        {peer}\n" for peer in peers)
    return KEEPALIVED.format(
        address=address,
        interface=interface,
        state=state,
        priority=PRIORITIES[state],
        router=router,
        unicast=f"    unicast_peer {{\n{listed}    }}\n" if peers else "",
        peer_hint=" and this machine as --peer" if peers else "",
    )


def _usual_interface() -> str:
    """Return the interface of the default route."""
    try:
        rows = [line.split() for line in ROUTES.read_text().splitlines()[1:]]
    except OSError:
        return USUAL_INTERFACE
    return next((row[0] for row in rows if row[1] == DEFAULT_ROUTE), USUAL_INTERFACE)


def _refuse(command: str, sentence: str) -> None:
    print(f"mirrormq {command}: {sentence}", file=sys.stderr)
    raise typer.Exit(1)
