"""Program `mirrormq` with all its commands and help pages: the server, a local cluster, and tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mirrormq import __version__
from mirrormq.cli import (
    backup,
    chaos,
    completion_install,
    haproxy_config,
    keepalived_config,
    local_cluster,
    migrate,
    perf,
    pipeline,
    top,
)
from mirrormq.cli.help_pages import CommandProgram, command_of
from mirrormq.cli.server import serve

EPILOG = """\b
Example: start three mirrored nodes on this machine and watch them:
  mirrormq cluster up --nodes 3 --data var --mirror-all --detach
  mirrormq top

\b
'mirrormq COMMAND --help' shows the options and an example of a command.
'mirrormqctl help' shows rabbitmqctl's commands: users, queues, policies, nodes.
"""

app = typer.Typer(
    cls=CommandProgram,
    help="Run an AMQP 0-9-1 broker with mirrored queues that works with RabbitMQ's clients and tools.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(local_cluster.app, name="cluster")
app.command("perf")(perf.perf)
app.command("chaos")(chaos.chaos)
app.command("top")(top.top)
app.command("backup")(backup.backup)
app.command("restore")(backup.restore)
app.command("haproxy-config")(haproxy_config.haproxy_config)
app.command("keepalived-config")(keepalived_config.keepalived_config)
app.add_typer(migrate.app, name="migrate")
app.add_typer(pipeline.app, name="pipeline")
app.command("completion")(completion_install.completion)
app.command("alias")(completion_install.alias)
app.command("autocomplete", hidden=True, context_settings=completion_install.ANY_WORDS)(
    completion_install.autocomplete
)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"mirrormq {__version__}")
        raise typer.Exit


@app.callback()
def _program(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Options before the command."""


@app.command()
def server(
    name: Annotated[str | None, typer.Option(help="Name of this node.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Directory of this node's data; created if absent.")
    ] = None,
    amqp: Annotated[list[str] | None, typer.Option(help="Address for clients; may be repeated.")] = None,
    management: Annotated[
        str | None, typer.Option(help="Address of the HTTP API and the web page, or none.")
    ] = None,
    cluster: Annotated[str | None, typer.Option(help="Address for other nodes, or none.")] = None,
    conf: Annotated[Path | None, typer.Option(help="Configuration file in rabbitmq.conf's format.")] = None,
    join: Annotated[
        list[str] | None, typer.Option(help="Member of a cluster to join; may be repeated.")
    ] = None,
    cookie_file: Annotated[
        Path | None, typer.Option(help="File with the cluster's secret; created if absent.")
    ] = None,
) -> None:
    """Run one node in the foreground; SIGTERM or Ctrl-C stops it gracefully.

    Flags override MIRRORMQ_* variables, these override the file, and the file overrides the defaults.

    \b
    Example:
      mirrormq server --name mirror1@localhost --data var/mirror1 --amqp 127.0.0.1:5672
    """
    raise typer.Exit(
        serve(cookie_file, name=name, data=data, amqp=amqp, management=management, cluster=cluster,
              conf=conf, join=join)
    )  # fmt: skip


def run(words: list[str]) -> None:
    """Run a command line."""
    command_of(app)(args=words, prog_name="mirrormq")
