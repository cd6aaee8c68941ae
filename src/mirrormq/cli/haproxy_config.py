"""Command `mirrormq haproxy-config`: one address in front of a cluster.

Any node serves any client, so a proxy may choose any node that is alive. A TCP connection does not prove
that: the kernel accepts connections for a frozen process. The check therefore speaks AMQP: it sends a
protocol header and expects the first frame of a node. The HTTP API is checked by a request that needs no
login. When a node fails a check, the proxy closes its clients' connections at once, and they reconnect to
another node. A connection that reaches a node which has just stopped is sent to another one (`redispatch`).
With `--lua` no client reaches a node that has just frozen (`cli.haproxy_lua`).
"""

from __future__ import annotations

import ipaddress
import re
import sys
from pathlib import Path
from typing import Annotated, NamedTuple, NoReturn

import typer

from mirrormq.cli.haproxy_lua import finder_lines, lua_script
from mirrormq.cli.local_ports import PORT_MAX
from mirrormq.cli.processes import ClusterError, LocalCluster

SOCKET_PATH = re.compile(r"/[A-Za-z0-9_./+@-]{1,89}")
"""Absolute path. A socket's path has at most 107 bytes, and HAProxy first binds one with a longer name."""

ADDRESS = re.compile(r"(?:\*|[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")

USUAL_NODES = [f"127.0.0.1:{port}" for port in (5672, 5673, 5674)]
"""Nodes that `make up` starts."""

HAPROXY = """\
# One address for the clients of {count} nodes. Check it: haproxy -c -f FILE. Run it: haproxy -f FILE.
global
    # Largest number of client connections. HAProxy needs two open files for each; it refuses to start if the
    # hard limit of open files (ulimit -Hn, LimitNOFILE= of systemd) is lower.
    maxconn {maxconn}
{admin_socket}{lua}
defaults
    mode tcp
    # A node that has just stopped refuses connections until the checks notice it: try another node at once.
    retries 3
    option redispatch 1
    timeout connect 5s
    # Heartbeats are more frequent than this; they distinguish an idle client from a dead one. The management
    # page also keeps a request open for as long as it is shown.
    timeout client 3h
    timeout server 3h
    timeout check 1s
    option clitcpka
    option srvtcpka
    default-server inter 1s fall 2 rise 2 init-addr last,libc,none on-marked-down shutdown-sessions
"""

HAPROXY_ADMIN_SOCKET = """\
    # Commands of the operator, for example: set server amqp/node1 state drain.
    stats socket {path} mode 600 level admin
"""

HAPROXY_LUA_LOAD = """\
    lua-load {path}
"""

HAPROXY_AMQP = """
listen {name}
    bind {bind}
    balance leastconn
    # A live node replies to the AMQP 0-9-1 header; a frozen one accepts connections and stays silent.
    option tcp-check
    tcp-check connect{check_options}
    tcp-check send-binary 414d515000000901
    tcp-check expect binary 01000000
{finder}{servers}
"""

HAPROXY_MANAGEMENT = """
listen management
    bind {bind}
    mode http
    balance first
    # The request needs no login. A node in maintenance mode replies 503.
    option httpchk
    http-check send meth GET uri /api/health/ready
    http-check expect status 200
{servers}
"""

HAPROXY_STATISTICS = """
listen statistics
    bind {bind}
    mode http
    # The page with the state of every server; GET /metrics is for Prometheus.
    http-request use-service prometheus-exporter if {{ path /metrics }}
    stats enable
    stats uri /
"""

STATISTICS = "127.0.0.1:8404"

MAXCONN = 4_000
"""Connections that need 8,024 open files. HAProxy does not start if the hard limit is lower; containers and
shells with a hard limit of 20,000 or 10,000 are common, systemd's is 524,288."""

CHECK_CERTIFICATE = " verify none"
"""The check proves that a node is alive; clients verify the certificates of the nodes themselves."""


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
    tls: Annotated[
        list[str] | None,
        typer.Option(help="HOST:PORT of a node's TLS listener, passed through as it is; may be repeated."),
    ] = None,
    tls_bind: Annotated[str, typer.Option(help="HOST:PORT for clients with TLS.")] = "127.0.0.1:5669",
    management: Annotated[
        list[str] | None, typer.Option(help="HOST:PORT of a node's HTTP API; may be repeated.")
    ] = None,
    management_bind: Annotated[str, typer.Option(help="HOST:PORT of the HTTP API.")] = "127.0.0.1:15670",
    statistics_bind: Annotated[str, typer.Option(help="HOST:PORT of HAProxy's page, or none.")] = STATISTICS,
    admin_socket: Annotated[
        str, typer.Option(help="Path of HAProxy's admin socket, for 'mirrormq migrate' and maintenance.")
    ] = "",
    lua: Annotated[str, typer.Option(help="File for a Lua script: no client reaches a frozen node.")] = "",
    maxconn: Annotated[int, typer.Option(min=1, help="Largest number of client connections.")] = MAXCONN,
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
        frontends = HaproxyFrontends(
            amqp, tls or [], apis, bind, tls_bind, management_bind, statistics_bind, maxconn, proxy_protocol,
            admin_socket, str(Path(lua).absolute()) if lua else "",
        )  # fmt: skip
        text, exposed = haproxy_text(frontends), _exposed(frontends)
        _write_lua(frontends)
    except (ClusterError, ProxyConfigError) as error:
        refuse("haproxy-config", str(error))
    for frontend in exposed:
        print(f"mirrormq haproxy-config: {EXPOSED.format(frontend)}", file=sys.stderr)
    print("".join(f"# {EXPOSED.format(frontend)}\n" for frontend in exposed) + text, end="")


class HaproxyFrontends(NamedTuple):
    """Addresses that HAProxy listens on, and the servers behind them."""

    nodes: list[str]
    tls_nodes: list[str]
    apis: list[str]
    bind: str
    tls_bind: str
    management_bind: str
    statistics_bind: str
    maxconn: int = MAXCONN
    proxy_protocol: bool = False
    admin_socket: str = ""
    lua: str = ""


def _exposed(wanted: HaproxyFrontends) -> list[str]:
    """Return the frontends through which remote clients would look local."""
    found = _exposing(wanted.management_bind, wanted.apis)
    if wanted.proxy_protocol:
        return found
    return _exposing(wanted.bind, wanted.nodes) + _exposing(wanted.tls_bind, wanted.tls_nodes) + found


def _exposing(bind: str, servers: list[str]) -> list[str]:
    """Return the frontend if remote hosts reach it and a server behind it would see them as local clients."""
    return [bind] if not _is_loopback(bind) and any(map(_is_loopback, servers)) else []


def _is_loopback(address: str) -> bool:
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def haproxy_text(wanted: HaproxyFrontends) -> str:
    """Return HAProxy's configuration."""
    send = " send-proxy-v2" if wanted.proxy_protocol else ""
    check = " send-proxy" if wanted.proxy_protocol else ""
    parts = [
        HAPROXY.format(
            count=len(wanted.nodes),
            maxconn=wanted.maxconn,
            admin_socket=_admin_socket(wanted.admin_socket),
            lua=_lua_load(wanted.lua),
        ),
        HAPROXY_AMQP.format(
            name="amqp",
            bind=host_and_port(wanted.bind, "--bind"),
            check_options=check,
            finder=finder_lines(len(wanted.nodes)) if wanted.lua else "",
            servers=_servers(wanted.nodes, send),
        ),
    ]
    if wanted.tls_nodes:
        servers = _servers(wanted.tls_nodes, send, CHECK_CERTIFICATE)
        bind = host_and_port(wanted.tls_bind, "--tls-bind")
        parts.append(
            HAPROXY_AMQP.format(
                name="amqps", bind=bind, check_options=check + " ssl", finder="", servers=servers
            )
        )
    if wanted.apis:
        bind = host_and_port(wanted.management_bind, "--management-bind")
        parts.append(HAPROXY_MANAGEMENT.format(bind=bind, servers=_servers(wanted.apis)))
    if wanted.statistics_bind != "none":
        bind = host_and_port(wanted.statistics_bind, "--statistics-bind")
        parts.append(HAPROXY_STATISTICS.format(bind=bind))
    return "".join(parts)


def _admin_socket(path: str) -> str:
    if path and not SOCKET_PATH.fullmatch(path):
        raise ProxyConfigError(f"--admin-socket: {path!r} must be an absolute path of at most 90 characters.")
    return HAPROXY_ADMIN_SOCKET.format(path=path) if path else ""


def _lua_load(path: str) -> str:
    if path and not SOCKET_PATH.fullmatch(path):
        raise ProxyConfigError(f"--lua: {path!r} must have at most 90 characters, none of them special.")
    return HAPROXY_LUA_LOAD.format(path=path) if path else ""


def _write_lua(wanted: HaproxyFrontends) -> None:
    if not wanted.lua:
        return
    try:
        Path(wanted.lua).write_text(lua_script("amqp", len(wanted.nodes), wanted.proxy_protocol))
    except OSError as error:
        raise ProxyConfigError(f"--lua: {wanted.lua} cannot be written: {error.strerror}.") from None


def _nodes_of(data: Path, management: list[str] | None) -> tuple[list[str], list[str]]:
    if not (data / "cluster.json").exists():
        return USUAL_NODES, management or []
    found = LocalCluster.load(data).nodes
    apis = [f"127.0.0.1:{node.management_port}" for node in found]
    return [f"127.0.0.1:{node.amqp_port}" for node in found], management or apis


def _servers(addresses: list[str], flags: str = "", check_flags: str = "") -> str:
    lines = [
        f"    server node{number} {host_and_port(address, 'NODES')}{flags} check{check_flags}"
        for number, address in enumerate(addresses, 1)
    ]
    return "\n".join(lines)


def host_and_port(text: str, flag: str) -> str:
    """Return a validated HOST:PORT; the pattern excludes characters that would inject words or lines."""
    found = ADDRESS.fullmatch(text)
    if found is None or not 0 < int(found[1]) <= PORT_MAX:
        raise ProxyConfigError(f"{flag}: {text!r} must be HOST:PORT.")
    return text


def refuse(command: str, sentence: str) -> NoReturn:
    """End the command with one sentence on standard error."""
    print(f"mirrormq {command}: {sentence}", file=sys.stderr)
    raise typer.Exit(1)
