"""Program `mirrormq`: the server, a local cluster, and tools."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrormq import __version__
from mirrormq.cli import (
    backup,
    chaos,
    completion_install,
    haproxy_config,
    keepalived_config,
    local_cluster,
    perf,
    pipeline,
    top,
)
from mirrormq.cli.banner import banner
from mirrormq.cli.data_lock import locked
from mirrormq.cli.help_pages import CommandProgram, command_of
from mirrormq.cli.pipeline_common import EXIT_INTERRUPTED
from mirrormq.config import cookie
from mirrormq.errors import ConfigurationError, StartError

if TYPE_CHECKING:
    from mirrormq.config.settings import Settings

EXIT_CONFIGURATION = 78
"""Exit code EX_CONFIG of sysexits.h. Service managers do not restart a node that ends with it."""
EXIT_UNAVAILABLE = 75
"""Exit code EX_TEMPFAIL of sysexits.h: an address or directory is in use, and a later start may succeed."""

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
    settings = server_settings(name, data, amqp, management, cluster, conf, join, cookie_file)
    from mirrormq.runtime.node import run  # Imported here, so that --help does not load the broker.

    with locked(settings.data_directory):
        # No banner in a JSON log: its readers parse every line. A closed stdout must not stop the node.
        if settings.log.formatter != "json":
            with suppress(OSError):
                print(banner(settings, cookie.cookie_file(os.environ, cookie_file)), flush=True)
        code = run(settings)
    raise typer.Exit(code)


def server_settings(
    name: str | None,
    data: Path | None,
    amqp: list[str] | None,
    management: str | None,
    cluster: str | None,
    conf: Path | None,
    join: list[str] | None,
    cookie_file: Path | None,
) -> Settings:
    """Combine flags, environment and configuration file."""
    from mirrormq.config.conf import ConfEntry
    from mirrormq.config.settings_loader import load_settings

    flags = [
        ConfEntry(key, str(value), flag)
        for key, value, flag in (
            ("name", name, "--name"),
            ("data_directory", data, "--data"),
            ("management.address", management, "--management"),
            ("cluster.listener", cluster, "--cluster"),
        )
        if value is not None
    ]
    flags += [ConfEntry(f"listeners.tcp.{index}", value, "--amqp") for index, value in enumerate(amqp or [])]
    flags += [ConfEntry(f"join.{index}", value, "--join") for index, value in enumerate(join or [])]
    if conf is None and os.environ.get("MIRRORMQ_CONF"):
        conf = Path(os.environ["MIRRORMQ_CONF"])
    settings = load_settings(flags, os.environ, conf)
    return replace(settings, cookie=cookie.find_cookie(os.environ, cookie_file))


def main(arguments: list[str] | None = None) -> None:
    """Run the console script."""
    try:
        command_of(app)(args=arguments, prog_name="mirrormq")
    except StartError as error:
        print(f"mirrormq: {error}", file=sys.stderr)
        sys.exit(EXIT_CONFIGURATION if isinstance(error, ConfigurationError) else EXIT_UNAVAILABLE)
    except KeyboardInterrupt:
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
