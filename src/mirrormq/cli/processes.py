"""Processes of a local cluster: start, watch, stop and kill nodes.

The state of a cluster is stored in DATA/cluster.json, so that `down`, `kill` and `start` work from another
shell, also after the starting program has ended. Nodes run in separate sessions: a Ctrl-C in the terminal
reaches only the program in the foreground, which then stops the nodes in order.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any

from mirrormq.cli import local_ports
from mirrormq.cli.local_node import LocalNode, end, is_frozen, is_running, send
from mirrormq.cli.program_exit import ended_by_signals, signals_held
from mirrormq.config.settings_loader import default_runtime_directory
from mirrormq.control.control_client import NodeUnreachable, answers, call
from mirrormq.control.control_protocol import ControlError, Request

START_TIMEOUT_S = 60.0
"""Timeout of a start. A node with a large journal needs seconds to recover; a minute indicates a fault."""

STOP_TIMEOUT_S = 60.0
"""Time after which a stopping node is killed."""

POLL_S = 0.05
WATCH_S = 0.25
LOG_TAIL_LINES = 5
ERROR_PREFIX = "mirrormq: "
"""Prefix of the line in which a node reports why it ends."""


class ClusterError(Exception):
    """Failed operation on a local cluster, with a sentence for the terminal."""


class LocalCluster:
    """Nodes under one directory."""

    def __init__(self, data: Path, nodes: list[LocalNode], conf: str | None, runtime_directory: str) -> None:
        self.data = data
        self.nodes = nodes
        self._conf = conf
        self.runtime_directory = runtime_directory
        self._children: dict[int, subprocess.Popen[bytes]] = {}
        self._log_size_at_start: dict[str, int] = {}
        """Size of each node's log when the node was started."""

    @classmethod
    def create(
        cls,
        data: Path,
        count: int,
        amqp_port: int,
        management_port: int,
        cluster_port: int | None = None,
        conf: Path | None = None,
    ) -> LocalCluster:
        """Return a cluster that is about to start, or raise ClusterError. Existing nodes know each other
        by their cluster ports and keep them unless `cluster_port` is given."""
        first = cluster_port or local_ports.cluster_port(amqp_port)
        nodes = [
            LocalNode(f"mirror{n + 1}@localhost", amqp_port + n, management_port + n, first + n)
            for n in range(count)
        ]
        data = data.absolute()
        if (data / "cluster.json").exists():
            before = cls.load(data)
            running = [node.name for node in before.nodes if is_running(node)]
            if running:
                raise ClusterError(
                    f"{', '.join(running)} of {data} is already running: "
                    f"stop it first with `mirrormq cluster down --data {data}`."
                )
            if cluster_port is None:
                known = {node.name: node.cluster_port for node in before.nodes}
                for node in nodes:
                    node.cluster_port = known.get(node.name, node.cluster_port)
        _check_ports(nodes)
        members = len(list(data.glob("mirror*@localhost/metadata")))
        # Without a majority of its members a cluster never serves clients.
        if conf is None and members > 2 and 2 * count <= members:
            raise ClusterError(
                f"{data} has a cluster of {members} nodes, and {count} are not a majority: "
                f"start {members // 2 + 1} or more with --nodes, or choose another --data."
            )
        return cls(data, nodes, str(conf.absolute()) if conf else None, str(_runtime_directory(data, nodes)))

    @classmethod
    def load(cls, data: Path) -> LocalCluster:
        """Return the cluster that was started in a directory."""
        data = data.absolute()
        try:
            found = json.loads((data / "cluster.json").read_text())
            nodes = [LocalNode(**node) for node in found["nodes"]]
            return cls(data, nodes, found["conf"], found["runtime_directory"])
        except FileNotFoundError:
            raise ClusterError(
                f"There is no cluster in {data}: start one with `mirrormq cluster up --data {data}`."
            ) from None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ClusterError(f"Cannot read {data / 'cluster.json'}: {error}.") from None

    def _save(self) -> None:
        document = {
            "nodes": [asdict(node) for node in self.nodes],
            "conf": self._conf,
            "runtime_directory": self.runtime_directory,
        }
        # Replaced atomically: commands in other shells read this file at any time.
        part = self.data / "cluster.json.part"
        part.write_text(json.dumps(document, indent=2))
        part.replace(self.data / "cluster.json")

    def log_of(self, node: LocalNode) -> Path:
        return self.data / node.name / "log" / "node.log"

    def node(self, name: str) -> LocalNode:
        """Return the node with a name; the host part may be omitted."""
        for node in self.nodes:
            if name in (node.name, node.name.partition("@")[0]):
                return node
        known = ", ".join(node.name for node in self.nodes)
        raise ClusterError(f"There is no node {name} in {self.data}; there are {known}.")

    def running(self, name: str) -> LocalNode:
        """Return the node with a name; raise ClusterError unless its process runs."""
        node = self.node(name)
        if not is_running(node):
            raise ClusterError(f"{node.name} is not running.")
        return node

    def status(self) -> list[dict[str, Any]]:
        return [
            {
                "name": node.name,
                "pid": node.pid,
                "amqp_port": node.amqp_port,
                "management_port": node.management_port,
                "running": is_running(node),
            }
            for node in self.nodes
        ]

    # -- start ----------------------------------------------------------------------------------

    def start_all(self) -> None:
        """Start every node and wait until all serve clients as one cluster; if one fails, stop all."""
        try:
            for node in self.nodes:
                self._spawn(node)
            for node in self.nodes:
                self._await(node, self._is_ready, "does not serve clients")
            if len(self.nodes) > 1:
                for node in self.nodes:
                    self._await(node, self._sees_all, "does not see all other nodes")
        except BaseException:
            self.stop_all()
            raise

    def start(self, name: str) -> None:
        node = self.node(name)
        if is_frozen(node):
            again = f"mirrormq cluster resume --data {self.data} {node.name}"
            raise ClusterError(f"{node.name} is frozen, pid {node.pid}: resume it with `{again}`.")
        if is_running(node):
            raise ClusterError(f"{node.name} is already running, pid {node.pid}.")
        self._spawn(node)
        self._await(node, self._is_ready, "does not serve clients")

    def _spawn(self, node: LocalNode) -> None:
        if not node.prefix and local_ports.stays_taken(node.amqp_port):
            raise ClusterError(f"Port {node.amqp_port} is in use: choose another with --amqp-port.")
        log = self.log_of(node)
        log.parent.mkdir(parents=True, exist_ok=True)
        self._log_size_at_start[node.name] = log.stat().st_size if log.exists() else 0
        environment = {**os.environ, "MIRRORMQ_RUNTIME_DIR": self.runtime_directory}
        # A signal during the start of the process would leave a node that no command stops.
        with log.open("ab") as output, signals_held():
            child = subprocess.Popen(
                self._command(node),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
            self._children[child.pid] = child
            node.pid = child.pid
            self._save()

    def _command(self, node: LocalNode) -> list[str]:
        command = [*node.prefix, sys.executable, "-m", "mirrormq.cli.main", "server", "--name", node.name]
        command += ["--data", str(self.data / node.name), "--amqp", f"localhost:{node.amqp_port}"]
        command += ["--management", f"localhost:{node.management_port}"]
        command += ["--cluster", f"{node.host}:{node.cluster_port}"]
        command += ["--cookie-file", str(self.data / "cookie")]
        if self._conf:
            command += ["--conf", self._conf]
        seed = self.nodes[0]
        if node is not seed:
            command += ["--join", f"{seed.name}:{seed.cluster_port}"]
        return command

    def _await(self, node: LocalNode, condition: Callable[[LocalNode], bool], what: str) -> None:
        deadline = time.monotonic() + START_TIMEOUT_S
        while not condition(node):
            self._reap()
            if not is_running(node):
                raise ClusterError(f"{node.name} did not start: {self._failure_reason(node)}")
            if time.monotonic() > deadline:
                words = self._failure_reason(node)
                raise ClusterError(f"{node.name} {what} after {START_TIMEOUT_S:.0f} seconds: {words}")
            time.sleep(POLL_S)

    def _failure_reason(self, node: LocalNode) -> str:
        """Return the last log lines since the node was started, or the error line with which it ended."""
        log = self.log_of(node)
        try:
            output = log.read_bytes()[self._log_size_at_start.get(node.name, 0) :]
        except OSError:
            return f"see {log}."
        lines = [line.strip() for line in output.decode(errors="replace").splitlines() if line.strip()]
        # Another process may write to the log after the node has ended.
        errors = [line for line in lines if line.startswith(ERROR_PREFIX)]
        if errors:
            return f"{errors[-1].removeprefix(ERROR_PREFIX)} (log: {log})"
        words = " / ".join(lines[-LOG_TAIL_LINES:])
        return f"{words} (log: {log})" if words else f"the log is empty: {log}."

    def _is_ready(self, node: LocalNode) -> bool:
        try:
            answer = call(Path(self.runtime_directory), node.name, Request("ping"), START_TIMEOUT_S)
        except (NodeUnreachable, ControlError):
            return False
        if answer["pid"] == node.pid:
            return bool(answer["serving"])
        return is_running(node) and local_ports.is_taken(node.amqp_port)

    def _sees_all(self, node: LocalNode) -> bool:
        """Report whether this node sees all nodes as running."""
        try:
            found = call(Path(self.runtime_directory), node.name, Request("running_nodes"), START_TIMEOUT_S)
        except ControlError:
            return False
        return {other.name for other in self.nodes} <= set(found)

    def mirror_all(self) -> None:
        """Set the policy `ha-all` for every queue of vhost /."""
        words = ["ha-all", ".*", '{"ha-mode":"all"}']
        request = Request("set_policy", words, {"vhost": "/", "apply-to": "queues"})
        try:
            call(Path(self.runtime_directory), self.nodes[0].name, request, START_TIMEOUT_S)
        except ControlError as error:
            raise ClusterError(f"Cannot set the policy ha-all: {error.text}") from None

    # -- watch and stop -------------------------------------------------------------------------

    def watch(self) -> None:
        """Block until a signal arrives or every node has ended."""
        while any(is_running(node) for node in self.nodes):
            time.sleep(WATCH_S)
            self._reap()
            self._reload()
        raise ClusterError(f"All nodes have ended: see {self.log_of(self.nodes[0])}.")

    def _reload(self) -> None:
        """Read the nodes again: `mirrormq cluster start` in another shell gives a node a new process."""
        if (self.data / "cluster.json").exists():
            self.nodes = LocalCluster.load(self.data).nodes

    def stop_all(self) -> None:
        """Send SIGTERM to all nodes, and SIGKILL to those that do not stop in time."""
        self._reload()
        for node in self.nodes:
            end(node)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for node in self.nodes:
            self._await_end(node, deadline)

    def _await_end(self, node: LocalNode, deadline: float) -> None:
        while is_running(node):
            self._reap()
            if time.monotonic() > deadline:
                print(f"{node.name} did not stop in time and is killed.", file=sys.stderr)
                send(node, signal.SIGKILL)
                deadline = float("inf")
            time.sleep(POLL_S)

    def stop(self, name: str) -> None:
        """Send SIGTERM to one node, and SIGKILL if it does not stop in time."""
        node = self.node(name)
        end(node)
        self._await_end(node, time.monotonic() + STOP_TIMEOUT_S)

    def freeze(self, name: str) -> None:
        """Send SIGSTOP and return when the process has stopped; it keeps its sockets but does not reply."""
        node = self.node(name)
        send(node, signal.SIGSTOP)
        while is_running(node) and not is_frozen(node):
            time.sleep(POLL_S)

    def resume(self, name: str) -> None:
        """Send SIGCONT."""
        send(self.node(name), signal.SIGCONT)

    def kill(self, name: str) -> None:
        """Send SIGKILL and wait until the process has ended."""
        node = self.running(name)
        send(node, signal.SIGKILL)
        self._await_end(node, float("inf"))

    def _reap(self) -> None:
        """Collect the exit codes of child processes, so that none stays a zombie."""
        for child in self._children.values():
            child.poll()


@contextmanager
def stopped_by_signals(cluster: LocalCluster) -> Iterator[None]:
    """End the block and stop the cluster on Ctrl-C, SIGTERM or SIGHUP."""
    try:
        with ended_by_signals():
            yield
    except KeyboardInterrupt:
        _print_line("Stopping the nodes …")
        cluster.stop_all()
        _print_line("All nodes have stopped.")


def _print_line(text: str) -> None:
    """Print a line and ignore errors: a closed terminal must not prevent the nodes from being stopped."""
    with suppress(OSError):
        print(text, flush=True)


def _check_ports(nodes: list[LocalNode]) -> None:
    ports = {
        "--amqp-port": [node.amqp_port for node in nodes],
        "--management-port": [node.management_port for node in nodes],
        "--cluster-port": [node.cluster_port for node in nodes],
    }
    if fault := local_ports.fault(ports):
        raise ClusterError(fault)


def _runtime_directory(data: Path, nodes: list[LocalNode]) -> Path:
    """Return the directory of the control sockets. If nodes of another cluster use these names in the
    shared directory, a separate one prevents commands from reaching the wrong nodes."""
    shared = default_runtime_directory(os.environ)
    if not any(answers(shared, node.name) for node in nodes):
        return shared
    # Not in `data`: the path of a socket is limited to about 100 bytes, and that of the data is not.
    return shared / sha256(bytes(data)).hexdigest()[:8]
