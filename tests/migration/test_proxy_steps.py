"""Commands for HAProxy: clients reach one cluster only, and a repeated step does nothing."""

from __future__ import annotations

from itertools import product

import pytest

from mirrormq.migration.migration_records import ProxyBackend
from mirrormq.migration.phases import Place
from mirrormq.migration.proxy_steps import (
    ProxyReplyError,
    ProxyServer,
    backend_of,
    read_servers,
    sessions_elsewhere,
    steps,
)

BACKEND = ProxyBackend("amqp", ["blue1", "blue2"], ["green1"])

STATE = """\
1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight
3 amqp 1 blue1 127.0.0.1 2 0 1
3 amqp 2 blue2 127.0.0.1 2 0 1
3 amqp 3 green1 127.0.0.1 0 5 1
4 other 1 web 127.0.0.1 2 0 1

"""
STATISTICS = "# pxname,svname,qcur,qmax,scur,\namqp,blue1,0,0,3,\namqp,blue2,0,0,0,\namqp,green1,0,0,0,\n\n"


def carried_out(servers: list[ProxyServer], commands: list[str]) -> list[ProxyServer]:
    """Apply commands as HAProxy does."""
    for command in commands:
        words = command.split()
        target = words[3] if words[0] == "shutdown" else words[2]
        servers = [
            server
            if f"{server.backend}/{server.name}" != target
            else server._replace(sessions=0)
            if words[0] == "shutdown"
            else server._replace(in_maintenance=words[-1] == "maint")
            for server in servers
        ]
    return servers


@pytest.mark.parametrize(("first", "second"), list(product(Place, Place)))
def test_every_change_of_place_leaves_one_cluster(first: Place, second: Place) -> None:
    servers = read_servers(STATE, STATISTICS)
    for place in (first, second):
        servers = carried_out(servers, steps(BACKEND, place, servers))
        ready = [server.name for server in servers if server.backend == "amqp" and not server.in_maintenance]
        assert ready == {Place.OLD: ["blue1", "blue2"], Place.NEW: ["green1"], Place.NONE: []}[place]
        assert steps(BACKEND, place, servers) == [], "repeated"
        assert sessions_elsewhere(BACKEND, place, servers) == 0
    assert servers[-1] == ProxyServer("other", "web", False, None), "other backends stay"


def test_one_side_closes_before_the_other_opens() -> None:
    commands = steps(BACKEND, Place.NEW, read_servers(STATE, STATISTICS))
    assert commands == [
        "set server amqp/blue1 state maint",
        "shutdown sessions server amqp/blue1",
        "set server amqp/blue2 state maint",
        "shutdown sessions server amqp/blue2",
        "set server amqp/green1 state ready",
    ]


@pytest.mark.parametrize(
    ("state", "statistics"),
    [
        (STATE.replace("0 5 1", "0"), STATISTICS),
        (STATE.replace("0 5 1", "0 x 1"), STATISTICS),
        (STATE.replace("srv_name", "name"), STATISTICS),
        (STATE, STATISTICS.replace("scur", "current")),
        (STATE, STATISTICS.replace("blue1,0,0,3", "blue1,0,0,x")),
    ],
)
def test_a_reply_that_is_cut_is_named(state: str, statistics: str) -> None:
    with pytest.raises(ProxyReplyError, match="HAProxy's reply about its servers is incomplete"):
        read_servers(state, statistics)


def test_a_server_with_unknown_sessions_does_not_count_as_left() -> None:
    servers = read_servers(STATE, STATISTICS.replace("amqp,blue1,0,0,3,\n", ""))
    with pytest.raises(ProxyReplyError, match="HAProxy's statistics lack the server amqp/blue1"):
        sessions_elsewhere(BACKEND, Place.NONE, servers)
    assert sessions_elsewhere(BACKEND, Place.OLD, servers) == 0


def test_disabled_servers_are_the_new_cluster() -> None:
    assert backend_of(read_servers(STATE, STATISTICS), "amqp") == BACKEND
    with pytest.raises(ProxyReplyError, match="backend 'other' must have servers of the old cluster"):
        backend_of(read_servers(STATE, STATISTICS), "other")
    with pytest.raises(ProxyReplyError, match="level admin"):
        read_servers("Permission denied\n", "")
