"""Command `mirrormq cluster`: nodes as processes on this host, for trials, rehearsals and tests."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from mirrormq.cli.help_pages import CommandGroup
from mirrormq.cli.local_node import LocalNode, is_frozen, is_running
from mirrormq.cli.processes import ClusterError, LocalCluster, stopped_by_signals
from mirrormq.config.settings_loader import default_runtime_directory

app = typer.Typer(
    cls=CommandGroup,
    help="""Run, stop, kill, freeze and start a cluster of nodes on this machine.

    \b
    Example: start three nodes, kill one and start it again:
      mirrormq cluster up --nodes 3 --data var --mirror-all --detach
      mirrormq cluster kill --data var mirror1
      mirrormq cluster start --data var mirror1
      mirrormq cluster down --data var
    """,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="NAME or NAME@HOST of the node.")]
Data = Annotated[Path, typer.Option(help="Directory of the cluster.")]
DEFAULT_DATA = Path("var")


@contextmanager
def _errors_reported() -> Iterator[None]:
    try:
        yield
    except ClusterError as error:
        print(f"mirrormq cluster: {error}", file=sys.stderr)
        raise typer.Exit(1) from None
    except OSError as error:
        print(f"mirrormq cluster: Cannot use {error.filename}: {error.strerror}.", file=sys.stderr)
        raise typer.Exit(1) from None


@app.command()
def up(
    nodes: Annotated[int, typer.Option(min=1, max=99, help="Number of nodes.")] = 3,
    data: Data = DEFAULT_DATA,
    amqp_port: Annotated[int, typer.Option(help="First node's AMQP port; the others follow.")] = 5672,
    management_port: Annotated[int, typer.Option(help="First node's management port.")] = 15672,
    cluster_port: Annotated[int | None, typer.Option(help="First node's port for peers.")] = None,
    conf: Annotated[Path | None, typer.Option(help="Configuration file of every node.")] = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Return as soon as every node serves clients.")
    ] = False,
    mirror_all: Annotated[
        bool, typer.Option("--mirror-all", help="Mirror every queue of vhost / on all nodes.")
    ] = False,
) -> None:
    """Start the nodes mirror1@localhost, mirror2@localhost and so on; Ctrl-C stops them.

    Each node's data is in DATA/NAME, its log in DATA/NAME/log.

    \b
    Example:
      mirrormq cluster up --nodes 1 --data var --amqp-port 5672 --management-port 15672
    """
    with _errors_reported():
        cluster = LocalCluster.create(data, nodes, amqp_port, management_port, cluster_port, conf)
        with stopped_by_signals(cluster):
            _run(cluster, mirror_all, detach)


def _run(cluster: LocalCluster, mirror_all: bool, detach: bool) -> None:
    cluster.start_all()
    if mirror_all:
        cluster.mirror_all()
    for node in cluster.nodes:
        print(f"{node.name}  amqp://guest:guest@127.0.0.1:{node.amqp_port}/%2F")
        print(f"  page      http://127.0.0.1:{node.management_port}/")
        print(f"  log       {cluster.log_of(node)}")
    if cluster.runtime_directory != str(default_runtime_directory(os.environ)):
        print(
            "mirrormq cluster: Other nodes with these names are running. To use mirrormqctl with these, set "
            f"MIRRORMQ_RUNTIME_DIR={cluster.runtime_directory}.",
            file=sys.stderr,
        )
    if detach:
        print(f"{_nodes(cluster.nodes)} running. Stop with: mirrormq cluster down --data {_shown(cluster)}")
        return
    print("Running; Ctrl-C stops.", flush=True)
    cluster.watch()


def _nodes(nodes: list[LocalNode]) -> str:
    return "1 node is" if len(nodes) == 1 else f"{len(nodes)} nodes are"


def _shown(cluster: LocalCluster) -> str:
    """Return the cluster's directory, quoted for a shell."""
    data, here = cluster.data, Path.cwd()
    return shlex.quote(str(data.relative_to(here) if data.is_relative_to(here) else data))


@app.command()
def down(data: Data = DEFAULT_DATA) -> None:
    """Stop every node of a cluster.

    \b
    Example:
      mirrormq cluster down --data var
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        running = [node for node in cluster.nodes if is_running(node)]
        cluster.stop_all()
    for node in cluster.nodes:
        print(f"{node.name} stopped" if node in running else f"{node.name} was not running")


@app.command()
def status(
    data: Data = DEFAULT_DATA,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False,
) -> None:
    """Show the nodes of a cluster.

    \b
    Example:
      mirrormq cluster status --data var --json
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        rows = cluster.status()
    if as_json:
        print(json.dumps(rows))
        return
    for row, node in zip(rows, cluster.nodes, strict=True):
        activity = "frozen" if is_frozen(node) else "running"
        state = f"{activity}, pid {row['pid']}" if row["running"] else "stopped"
        print(f"{row['name']}  amqp {row['amqp_port']}  management {row['management_port']}  {state}")


@app.command()
def stop(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Stop one node gracefully (SIGTERM). Its queues move to their mirrors first.

    \b
    Example:
      mirrormq cluster stop --data var mirror1@localhost
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        node = cluster.running(name)
        cluster.stop(name)
    print(f"{node.name} stopped. {_start_again(cluster, node)}")


@app.command()
def kill(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Kill one node with SIGKILL, as a crash or a power failure would.

    \b
    Example:
      mirrormq cluster kill --data var mirror1@localhost
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        node = cluster.running(name)
        cluster.kill(name)
    print(f"{node.name} killed (SIGKILL, pid {node.pid}). {_start_again(cluster, node)}")


@app.command()
def freeze(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Freeze one node with SIGSTOP: its sockets stay open and it does not reply.

    The other nodes consider it down within seconds. `mirrormq cluster resume` continues it.

    \b
    Example:
      mirrormq cluster freeze --data var mirror1@localhost
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        node = cluster.running(name)
        if is_frozen(node):
            raise ClusterError(f"{node.name} is frozen already, pid {node.pid}.")
        cluster.freeze(name)
    again = f"mirrormq cluster resume --data {_shown(cluster)} {node.name}"
    print(f"{node.name} frozen (SIGSTOP, pid {node.pid}). Continue it with: {again}")


@app.command()
def resume(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Continue a frozen node (SIGCONT).

    \b
    Example:
      mirrormq cluster resume --data var mirror1@localhost
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        node = cluster.running(name)
        if not is_frozen(node):
            raise ClusterError(f"{node.name} is not frozen, pid {node.pid}.")
        cluster.resume(name)
    print(f"{node.name} continues (SIGCONT, pid {node.pid}).")


@app.command()
def start(name: Name, data: Data = DEFAULT_DATA) -> None:
    """Start one node and wait until it serves clients.

    \b
    Example:
      mirrormq cluster start --data var mirror1@localhost
    """
    with _errors_reported():
        cluster = LocalCluster.load(data)
        cluster.start(name)
    node = cluster.node(name)
    print(f"{node.name} serves clients at 127.0.0.1:{node.amqp_port}, pid {node.pid}.")


def _start_again(cluster: LocalCluster, node: LocalNode) -> str:
    return f"Start it again with: mirrormq cluster start --data {_shown(cluster)} {node.name}"
