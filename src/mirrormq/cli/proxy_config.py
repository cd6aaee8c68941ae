"""`mirrormq haproxy-config` and `mirrormq keepalived-config`: one address in front of a cluster.

Any node serves any client, so a proxy may send a client wherever it likes. What it must know is who is
alive, and connecting does not tell: the kernel answers for a process that is frozen. So the check speaks
AMQP: it sends a protocol header and wants the frame that a node greets its clients with. When a node fails
it, its clients are cut off at once, and come back through the proxy to another one.

A proxy is one machine again, which may fail. keepalived on two of them moves an address to the one where
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
"""What `make up` runs."""

PRIORITIES = {"MASTER": 100, "BACKUP": 90}
ROUTES = Path("/proc/net/route")
USUAL_INTERFACE = "eth0"
DEFAULT_ROUTE = "00000000"

HAPROXY = """\
# One address for the clients of {count} nodes. Check it: haproxy -c -f FILE. Run it: haproxy -f FILE.
# How many connections it holds follows from how many files it may open.
defaults
    mode tcp
    timeout connect 5s
    # Heartbeats tell a silent client from a dead one, and come more often than this.
    timeout client 3h
    timeout server 3h
    timeout check 2s
    option clitcpka
    option srvtcpka

listen amqp
    bind {bind}
    balance leastconn
    # A node that lives greets who speaks AMQP 0-9-1; one that is frozen accepts connections and says nothing.
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
# Moves {address} to the machine where haproxy runs. Check it: keepalived -t -f FILE.
# On the other machine: the same with --backup{peer_hint}.
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
    """A sentence for the person at the terminal."""


def haproxy_config(
    nodes: Annotated[
        list[str] | None, typer.Argument(help="HOST:PORT of the nodes; those of --data if not given.")
    ] = None,
    data: Annotated[Path, typer.Option(help="Directory of a local cluster.")] = Path("var"),
    bind: Annotated[str, typer.Option(help="HOST:PORT where clients connect.")] = "127.0.0.1:5670",
    management: Annotated[
        list[str] | None, typer.Option(help="HOST:PORT of a node's HTTP API; may be repeated.")
    ] = None,
    management_bind: Annotated[str, typer.Option(help="HOST:PORT of the HTTP API.")] = "127.0.0.1:15670",
    proxy_protocol: Annotated[
        bool,
        typer.Option("--proxy-protocol", help="For nodes with `proxy_protocol = true`."),
    ] = False,
) -> None:
    """Print a configuration of HAProxy that spreads clients over the nodes of a cluster.

    Without nodes: those of the local cluster in --data, or else the three of `make up`.

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
    """The frontend, if other machines reach it and a server behind it takes them for its own machine."""
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
    """HAProxy's file."""
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
    """HOST:PORT; nothing that would begin another word or line of the file."""
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= PORT_MAX:
        raise ProxyConfigError(f"{flag}: {text!r} must be HOST:PORT.")
    return text


def keepalived_config(
    address: Annotated[
        str, typer.Option(help="The address that moves, with its network's width.")
    ] = "192.168.1.100/24",
    interface: Annotated[
        str | None, typer.Option(help="Network interface; that of the default route if not given.")
    ] = None,
    backup: Annotated[bool, typer.Option("--backup", help="This is the machine that stands by.")] = False,
    router: Annotated[
        int, typer.Option(min=1, max=255, help="Number of the pair; equal on both, unused by others.")
    ] = 51,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Address of the other machine, where the network carries no multicast."),
    ] = None,
) -> None:
    """Print a configuration of keepalived that moves an address to a machine where HAProxy runs.

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
        _refuse("keepalived-config", f"{interface!r} is no name of a network interface.")
    print(keepalived_text(address, interface or _usual_interface(), backup, router, peer or []), end="")


def keepalived_text(address: str, interface: str, backup: bool, router: int, peers: list[str]) -> str:
    """keepalived's file."""
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
    """The one that the default route leads through."""
    try:
        rows = [line.split() for line in ROUTES.read_text().splitlines()[1:]]
    except OSError:
        return USUAL_INTERFACE
    return next((row[0] for row in rows if row[1] == DEFAULT_ROUTE), USUAL_INTERFACE)


def _refuse(command: str, sentence: str) -> None:
    print(f"mirrormq {command}: {sentence}", file=sys.stderr)
    raise typer.Exit(1)
