"""Client-side parts of `mirrormqctl` cluster commands: waiting, local discovery of nodes, screens."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

from mirrormq.cli import erlang_format, erlang_status, invoke
from mirrormq.cli.cluster_screen import cluster_screen
from mirrormq.cli.command_line import CommandLine, UsageError, full_name
from mirrormq.cli.ctl_command import CtlCommand
from mirrormq.cli.node_discovery import runtime_directory
from mirrormq.control import boot_flags, control_client
from mirrormq.control.control_protocol import EXIT_DATA, EXIT_SOFTWARE, ControlError, Request

POLL_S = 0.1
AWAIT_NODES_S = 300
"""Default timeout of rabbitmqctl for await_online_nodes."""
LOCAL_NODE_TIMEOUT_S = 5.0
"""Timeout of the request for a local node's cluster address."""

NOT_FROM_HERE = (
    "{:removing_node_from_offline_node, 'To remove a node remotely from an offline node, the node you are "
    "removing from must be a disc node and all the other nodes must be offline.'}"
)


def cluster_status(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply = invoke.ask(line, "cluster_status", [])
    if line.options.get("formatter") == "json":
        print(json.dumps(reply, separators=(",", ":"), sort_keys=True))
    elif invoke.is_erlang(line):
        print(erlang_format.written(erlang_status.cluster_status(reply)))
    else:
        print("\n".join(cluster_screen(reply)))
    return 0


def await_online_nodes(command: CtlCommand, line: CommandLine) -> int:
    wanted = _count(line.words[0])
    limit_s = int(float(line.options.get("timeout", AWAIT_NODES_S)))
    if not line.is_quiet:
        text = f"Will wait for at least {wanted} nodes to join the cluster of {line.node}."
        print(f"{text} Timeout: {limit_s} seconds.", flush=True)
    deadline = time.monotonic() + limit_s
    while len(invoke.ask(line, "running_nodes", [])) < wanted:
        if time.monotonic() >= deadline:
            raise ControlError(
                f"Error: timed out while waiting. Not enough nodes joined {line.node}'s cluster.",
                EXIT_SOFTWARE,
            )
        time.sleep(POLL_S)
    return 0


def _count(word: str) -> int:
    if not word.isdecimal() or int(word) < 1:
        raise UsageError("Bad argument: Argument must be a positive integer", EXIT_DATA)
    return int(word)


def check_count(words: list[str]) -> None:
    """Check that the argument is a number of nodes."""
    _count(words[0])


def join_cluster(command: CtlCommand, line: CommandLine) -> int:
    """Join a cluster. The cluster port of a node on this host is read from its control socket."""
    name, _, port = line.words[0].partition(":")
    name = full_name(name)
    line.words = [name]
    invoke.show_banner(command, line)
    line.options.pop("disc", None)
    line.options.pop("ram", None)
    address = f"{name.partition('@')[2]}:{port}" if port else _local_node_address(name)
    note = invoke.ask(line, "join_cluster", [name], {"address": address} if address else {})
    if note and not line.is_quiet:
        print(note)
    return 0


def _local_node_address(name: str) -> str:
    """Return the cluster address of a running node on this host, else an empty text."""
    try:
        directory = runtime_directory(os.environ)
        return str(
            control_client.call(directory, name, Request("ping"), LOCAL_NODE_TIMEOUT_S).get("cluster", "")
        )
    except ControlError:
        return ""


def forget_cluster_node(command: CtlCommand, line: CommandLine) -> int:
    """Forget a node. With --offline the target node is stopped, so a flag file records the request for its
    next start."""
    line.words = [full_name(line.words[0])]
    if not line.options.pop("offline", False):
        return invoke.perform(command, line)
    if control_client.answers(line.runtime_directory, line.node):
        raise UsageError("this command requires the target node to be stopped.", heading="Error")
    invoke.show_banner(command, line)
    directory = data_directory(line.node)
    if line.words[0] == line.node or control_client.answers(line.runtime_directory, line.words[0]):
        raise ControlError(NOT_FROM_HERE)
    boot_flags.leave(directory, line.words[0])
    return 0


def force_boot(command: CtlCommand, line: CommandLine) -> int:
    """Force the next start; write a flag file if the node does not run."""
    try:
        return invoke.perform(command, line)
    except control_client.NodeUnreachable:
        boot_flags.force(data_directory(line.node))
        return 0


def data_directory(node: str) -> Path:
    """Return the data directory of a stopped node."""
    directory = Path(os.environ.get("MIRRORMQ_DATA_DIRECTORY") or Path("var") / node)
    try:
        owner = (directory / "node").read_text().strip()
    except OSError:
        owner = ""
    if owner != node:
        raise ControlError(
            f"{directory} is not the data directory of {node}: "
            "set MIRRORMQ_DATA_DIRECTORY to its data directory."
        )
    return directory


def environment(command: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(command, line)
    reply = invoke.ask(line, "environment", [])
    if invoke.is_erlang(line):
        invoke.show_facts(line, reply)
        return 0
    is_json = line.options.get("formatter") == "json"
    print(json.dumps(reply, separators=(",", ":")) if is_json else json.dumps(reply, indent=1))
    return 0


PROGRAMS = {
    "cluster_status": cluster_status,
    "await_online_nodes": await_online_nodes,
    "join_cluster": join_cluster,
    "forget_cluster_node": forget_cluster_node,
    "force_boot": force_boot,
    "environment": environment,
}
