"""The parts of the cluster's verbs that happen in `mirrormqctl`: waiting, finding nodes, screens."""

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
"""rabbitmqctl's own limit for await_online_nodes."""
ASK_NEIGHBOUR_S = 5.0
"""How long a node on this machine may take to say where it listens."""

NOT_FROM_HERE = (
    "{:removing_node_from_offline_node, 'To remove a node remotely from an offline node, the node you are "
    "removing from must be a disc node and all the other nodes must be offline.'}"
)


def cluster_status(verb: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(verb, line)
    found = invoke.ask(line, "cluster_status", [])
    if line.options.get("formatter") == "json":
        print(json.dumps(found, separators=(",", ":"), sort_keys=True))
    elif invoke.is_erlang(line):
        print(erlang_format.written(erlang_status.cluster_status(found)))
    else:
        print("\n".join(cluster_screen(found)))
    return 0


def await_online_nodes(verb: CtlCommand, line: CommandLine) -> int:
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
    """What must be a number of nodes is one."""
    _count(words[0])


def join_cluster(verb: CtlCommand, line: CommandLine) -> int:
    """A node on this machine is found by its control socket, whatever port it listens on for other nodes."""
    name, _, port = line.words[0].partition(":")
    name = full_name(name)
    line.words = [name]
    invoke.show_banner(verb, line)
    line.options.pop("disc", None)
    line.options.pop("ram", None)
    address = f"{name.partition('@')[2]}:{port}" if port else _neighbour(name)
    said = invoke.ask(line, "join_cluster", [name], {"address": address} if address else {})
    if said and not line.is_quiet:
        print(said)
    return 0


def _neighbour(name: str) -> str:
    """Where a node of this machine listens for other nodes, if it is one and runs."""
    try:
        directory = runtime_directory(os.environ)
        return str(control_client.call(directory, name, Request("ping"), ASK_NEIGHBOUR_S).get("cluster", ""))
    except ControlError:
        return ""


def forget_cluster_node(verb: CtlCommand, line: CommandLine) -> int:
    """With --offline the node is not there to be asked: it is left a note that it reads when it starts."""
    line.words = [full_name(line.words[0])]
    if not line.options.pop("offline", False):
        return invoke.perform(verb, line)
    if control_client.answers(line.runtime_directory, line.node):
        raise UsageError("this command requires the target node to be stopped.", heading="Error")
    invoke.show_banner(verb, line)
    directory = data_directory(line.node)
    if line.words[0] == line.node or control_client.answers(line.runtime_directory, line.words[0]):
        raise ControlError(NOT_FROM_HERE)
    boot_flags.leave(directory, line.words[0])
    return 0


def force_boot(verb: CtlCommand, line: CommandLine) -> int:
    """A node that does not run is left a note."""
    try:
        return invoke.perform(verb, line)
    except control_client.NodeUnreachable:
        boot_flags.force(data_directory(line.node))
        return 0


def data_directory(node: str) -> Path:
    """Where a stopped node's data is."""
    directory = Path(os.environ.get("MIRRORMQ_DATA_DIRECTORY") or Path("var") / node)
    try:
        owner = (directory / "node").read_text().strip()
    except OSError:
        owner = ""
    if owner != node:
        raise ControlError(
            f"There is no data of {node} in {directory}: set MIRRORMQ_DATA_DIRECTORY to its data directory."
        )
    return directory


def environment(verb: CtlCommand, line: CommandLine) -> int:
    invoke.show_banner(verb, line)
    found = invoke.ask(line, "environment", [])
    if invoke.is_erlang(line):
        invoke.show_facts(line, found)
        return 0
    is_json = line.options.get("formatter") == "json"
    print(json.dumps(found, separators=(",", ":")) if is_json else json.dumps(found, indent=1))
    return 0


PROGRAMS = {
    "cluster_status": cluster_status,
    "await_online_nodes": await_online_nodes,
    "join_cluster": join_cluster,
    "forget_cluster_node": forget_cluster_node,
    "force_boot": force_boot,
    "environment": environment,
}
