"""Command `mirrormq keepalived-config`: an address that moves between two hosts with HAProxy.

One proxy is a single point of failure. keepalived runs on two hosts, and the virtual address is on the one
whose HAProxy works. A process that exists may still be frozen or misconfigured, so the check connects to
HAProxy and expects the first frame of a node.

Both hosts begin as backup and do not preempt: a repaired host does not take the address back, because that
would cut all clients off a second time.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from pathlib import Path
from typing import Annotated

import typer

from mirrormq.cli.haproxy_config import ProxyConfigError, host_and_port, refuse

INTERFACE = re.compile(r"[A-Za-z0-9_.@-]{1,15}")
PRIORITIES = {False: 100, True: 90}
"""VRRP priority of the first host and of the backup; decides only while no host has the address."""

ROUTES = Path("/proc/net/route")
USUAL_INTERFACE = "eth0"
DEFAULT_ROUTE = "00000000"
ANY_ADDRESS = "*"

# `QU1RUAAACQE=` is the AMQP 0-9-1 protocol header. Two attempts of 0.6 s: one may have reached a frozen node
# that HAProxy has not marked down yet. keepalived counts in whole seconds, so the script makes the attempts.
KEEPALIVED = """\
# Moves {address} to a host where haproxy works. `keepalived -t -f FILE` prints nothing if the file is valid.
# On the other host: the same command with {other}{peer_hint}.
global_defs {{
    router_id {router_id}
    enable_script_security
    script_user nobody
}}

# haproxy must pass a connection to a node, which replies to the AMQP header. A dead proxy fails at once, a
# frozen one after 1.2 s. (track_process would not see a frozen one, and fails in containers.)
vrrp_script haproxy_serves_amqp {{
    script "/bin/bash -c 'for attempt in 1 2; do timeout 0.6 bash -c \\"{probe}\\" && exit 0; done; exit 1'"
    interval 1
    timeout 3
    fall 1
    rise 2
    init_fail
}}

vrrp_instance mirrormq {{
    # Both hosts are BACKUP and nopreempt: a host that comes back does not take the address away again.
    state BACKUP
    nopreempt
    interface {interface}
    virtual_router_id {router}
    priority {priority}
    advert_int 1
    garp_master_delay 1
{unicast}    virtual_ipaddress {{
        {address}
    }}
    track_script {{
        haproxy_serves_amqp
    }}
}}
"""

PROBE = "exec 3<>/dev/tcp/{host}/{port}; echo QU1RUAAACQE= | base64 -d >&3; head -c 1 <&3 | grep -q ."


def keepalived_config(
    address: Annotated[
        str, typer.Option(help="Virtual address with its prefix length.")
    ] = "192.168.1.100/24",
    interface: Annotated[
        str | None, typer.Option(help="Network interface; defaults to that of the default route.")
    ] = None,
    proxy: Annotated[
        str, typer.Option(help="HOST:PORT at which HAProxy on this host serves AMQP.")
    ] = "127.0.0.1:5670",
    backup: Annotated[bool, typer.Option("--backup", help="Configure the standby host.")] = False,
    router: Annotated[
        int, typer.Option(min=1, max=255, help="VRRP router id; equal on both hosts, unique in the network.")
    ] = 51,
    peer: Annotated[
        list[str] | None,
        typer.Option(help="Address of the other host, for networks without multicast."),
    ] = None,
) -> None:
    """Print a keepalived configuration that moves an address to a host where HAProxy works.

    \b
    Example:
      mirrormq keepalived-config --address 10.0.0.100/24 --interface eth0 > keepalived.conf
      mirrormq keepalived-config --address 10.0.0.100/24 --interface eth0 --backup > keepalived.conf
    """
    try:
        ipaddress.ip_interface(address)
        for other in peer or []:
            ipaddress.ip_address(other)
        host_and_port(proxy, "--proxy")
    except ValueError as error:
        refuse("keepalived-config", f"{error}.")
    except ProxyConfigError as error:
        refuse("keepalived-config", str(error))
    if interface is not None and not INTERFACE.fullmatch(interface):
        refuse("keepalived-config", f"{interface!r} is not a valid name of a network interface.")
    found = interface or _usual_interface()
    print(keepalived_text(address, found, proxy, backup, router, peer or []), end="")


def keepalived_text(
    address: str, interface: str, proxy: str, backup: bool, router: int, peers: list[str]
) -> str:
    """Return keepalived's configuration."""
    host, _, port = proxy.rpartition(":")
    listed = "".join(f"        {peer}\n" for peer in peers)
    return KEEPALIVED.format(
        address=address,
        interface=interface,
        router_id=socket.gethostname(),
        priority=PRIORITIES[backup],
        router=router,
        probe=PROBE.format(host="127.0.0.1" if host == ANY_ADDRESS else host.strip("[]"), port=port),
        unicast=f"    unicast_peer {{\n{listed}    }}\n" if peers else "",
        other="--backup removed" if backup else "--backup",
        peer_hint=" and this host as --peer" if peers else "",
    )


def _usual_interface() -> str:
    """Return the interface of the default route."""
    try:
        rows = [line.split() for line in ROUTES.read_text().splitlines()[1:]]
    except OSError:
        return USUAL_INTERFACE
    return next((row[0] for row in rows if row[1] == DEFAULT_ROUTE), USUAL_INTERFACE)
