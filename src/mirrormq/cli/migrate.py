"""Command group `mirrormq migrate`: from a running RabbitMQ 3.x to this cluster, with a way back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from mirrormq.cli.help_pages import CommandGroup
from mirrormq.cli.migrate_output import ProgressScreen, findings_table, report_table, status_lines
from mirrormq.cli.migrate_steps import (
    DEFAULT_DIRECTORY,
    EXIT_DIFFERENT,
    WAIT_S,
    DirOption,
    JsonOption,
    WaitOption,
    clear,
    opened,
    progress,
    reported,
    take,
)

if TYPE_CHECKING:
    from mirrormq.migration_io.migration_directory import MigrationDirectory
    from mirrormq.migration_io.migration_survey import ProxyOptions

DEFAULT_TO = "http://guest:guest@127.0.0.1:15672"
DEFAULT_TO_AMQP = "amqp://guest:guest@127.0.0.1:5672"

AcceptOption = Annotated[
    list[str] | None, typer.Option(help="Blocker to accept, as kind:name; may be repeated.")
]
VhostOption = Annotated[list[str] | None, typer.Option(help="Vhost to move; may be repeated; default: all.")]

app = typer.Typer(
    cls=CommandGroup,
    help="Migrate from a running RabbitMQ 3.x cluster to this one.",
    epilog="""\b
Example: a migration behind HAProxy, from the survey to the end:
  mirrormq migrate plan --from http://admin:secret@blue:15672 --from-amqp amqp://admin:secret@blue \\
      --to http://admin:secret@green:15672 --to-amqp amqp://admin:secret@green \\
      --haproxy /run/haproxy/admin.sock --consumers consumers --producers producers
  mirrormq migrate run            (in a second terminal, until the end)
  mirrormq migrate switch consumers
  mirrormq migrate switch producers
  mirrormq migrate verify
  mirrormq migrate finish

\b
Every step before 'finish' can be undone with 'mirrormq migrate rollback'.
""",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.command()
def plan(
    old: Annotated[
        list[str],
        typer.Option(
            "--from",
            help="HTTP API of a node of the old cluster, with an administrator's login; may be repeated.",
        ),
    ],
    old_amqp: Annotated[
        list[str],
        typer.Option("--from-amqp", help="AMQP URI of a node of the old cluster; may be repeated."),
    ],
    new: Annotated[
        list[str] | None,
        typer.Option("--to", help="HTTP API of a node of the new cluster; may be repeated."),
    ] = None,
    new_amqp: Annotated[
        list[str] | None,
        typer.Option("--to-amqp", help="AMQP URI of a node of the new cluster; may be repeated."),
    ] = None,
    directory: DirOption = DEFAULT_DIRECTORY,
    vhost: VhostOption = None,
    accept: AcceptOption = None,
    haproxy: Annotated[str, typer.Option(help="Admin socket of HAProxy: path, or HOST:PORT.")] = "",
    consumers: Annotated[str, typer.Option(help="HAProxy's backend for consumers.")] = "",
    producers: Annotated[str, typer.Option(help="HAProxy's backend for producers; may be the same.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Survey both clusters: what exists, what differs, what cannot be moved. Changes nothing.

    Each finding has a reason and a remedy. Blockers stop the migration until they are removed or accepted.
    HAProxy's servers that are disabled now are taken as those of the new cluster.

    \b
    Example:
      mirrormq migrate plan --from http://admin:secret@blue:15672 --from-amqp amqp://admin:secret@blue \\
          --to http://admin:secret@green:15672 --to-amqp amqp://admin:secret@green
    """
    with reported("plan"):
        from mirrormq.migration.migration_records import as_json as json_of
        from mirrormq.migration_io.migration_survey import Addresses, make_plan

        addresses = Addresses(old, old_amqp, new or [DEFAULT_TO], new_amqp or [DEFAULT_TO_AMQP])
        made = make_plan(addresses, vhost or [], accept or [], _proxy(haproxy, consumers, producers))
        opened(directory).create(made)
        print(json_of(made.findings) if as_json else findings_table(made, directory))
        if made.blockers:
            raise typer.Exit(EXIT_DIFFERENT)


def _proxy(haproxy: str, consumers: str, producers: str) -> ProxyOptions | None:
    from mirrormq.migration_io.broker_api import MigrationError
    from mirrormq.migration_io.migration_survey import ProxyOptions

    if not haproxy and not consumers and not producers:
        return None
    if not (haproxy and consumers and producers):
        raise MigrationError("--haproxy, --consumers and --producers belong together: give all three or none")
    return ProxyOptions(haproxy, consumers, producers)


@app.command()
def run(directory: DirOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Do the work of the present phase, until the migration is finished or undone.

    Let it run in a terminal of its own, or as a service. It may be stopped or killed at any time: run it
    again, and it continues. 'switch', 'rollback' and 'finish' tell it what comes next.

    \b
    Example:
      mirrormq migrate run --dir mirrormq-migration
    """
    with reported("run"):
        from mirrormq.migration_io.broker_api import MigrationError
        from mirrormq.migration_io.migration_run import MigrationRun

        files = opened(directory)
        made = files.plan()
        if made.blockers:
            listed = ", ".join(finding.id for finding in made.blockers)
            raise MigrationError(
                f"blockers: {listed}; follow their remedies and plan again, or plan again with --accept"
            )
        with files.running(), ProgressScreen(as_json) as screen:
            phase = asyncio.run(MigrationRun(files, made, screen.show).run())
    if not as_json:
        print(f"The migration is {phase}.")


@app.command()
def status(directory: DirOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Show phase, progress, time left, links that do not work, and what comes next.

    \b
    Example:
      mirrormq migrate status --json
    """
    with reported("status"):
        from mirrormq.migration.migration_records import as_json as json_of

        files = opened(directory)
        state, shown = files.state(), files.status()
        is_running = files.is_running()
        if as_json:
            print(json_of({"state": state, "running": is_running, "status": shown}))
        else:
            print("\n".join(status_lines(state, shown, is_running)))


@app.command()
def verify(directory: DirOption = DEFAULT_DIRECTORY, as_json: JsonOption = False) -> None:
    """Compare both clusters: definitions, and counts and digests per queue. Exit code 1 if anything differs.

    Writes report.json and report.md into the directory.

    \b
    Example:
      mirrormq migrate verify && mirrormq migrate finish
    """
    with reported("verify"):
        from mirrormq.migration.migration_records import as_json as json_of
        from mirrormq.migration_io import migration_verify

        files = opened(directory)
        report = migration_verify.verify(files, files.plan(), progress)
        clear()
        print(json_of(report) if as_json else report_table(report))
        if report.differences:
            raise typer.Exit(EXIT_DIFFERENT)


switch_app = typer.Typer(
    cls=CommandGroup,
    help="Move clients to the new cluster.",
    epilog="""\b
Example: consumers first, then producers:
  mirrormq migrate switch consumers
  mirrormq migrate switch producers
""",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(switch_app, name="switch")


@switch_app.command()
def consumers(directory: DirOption = DEFAULT_DIRECTORY, timeout: WaitOption = WAIT_S) -> None:
    """Move consumers; then messages follow them, in order.

    Without --haproxy, stop the consumers, wait for this command, and start them at the new cluster.

    \b
    Example:
      mirrormq migrate switch consumers
    """
    with reported("switch consumers"):
        from mirrormq.migration.phases import Step

        _check_shared(opened(directory))
        take(opened(directory), Step.SWITCH_CONSUMERS, timeout)


@switch_app.command()
def producers(directory: DirOption = DEFAULT_DIRECTORY, timeout: WaitOption = WAIT_S) -> None:
    """Move producers: they wait until the old cluster is empty, then reach the new one.

    Without --haproxy, stop the producers, wait for this command, and start them at the new cluster.

    \b
    Example:
      mirrormq migrate switch producers
    """
    with reported("switch producers"):
        from mirrormq.migration.phases import Step

        take(opened(directory), Step.SWITCH_PRODUCERS, timeout)


@switch_app.command("all")
def everything(directory: DirOption = DEFAULT_DIRECTORY, timeout: WaitOption = WAIT_S) -> None:
    """Move consumers and producers together; both wait until the old cluster is empty.

    For clients that consume and publish over one connection or through one address.

    \b
    Example:
      mirrormq migrate switch all
    """
    with reported("switch all"):
        from mirrormq.migration.phases import Step

        take(opened(directory), Step.SWITCH_ALL, timeout)


def _check_shared(files: MigrationDirectory) -> None:
    from mirrormq.migration_io.broker_api import MigrationError

    proxy = files.plan().proxy
    if proxy is not None and proxy.is_shared:
        raise MigrationError(
            f"consumers and producers share HAProxy's backend '{proxy.consumers.name}': use "
            "'mirrormq migrate switch all'"
        )


@app.command()
def rollback(directory: DirOption = DEFAULT_DIRECTORY, timeout: WaitOption = WAIT_S) -> None:
    """Undo: the clients wait, all messages go back in order, then the clients reach the old cluster again.

    Without --haproxy, stop all clients, wait for this command, and start them at the old cluster.

    Once no message is on the new cluster, a second rollback removes the imported definitions from it. Users
    whose password was set on the new cluster are listed: RabbitMQ cannot take such passwords.

    \b
    Example:
      mirrormq migrate rollback
    """
    with reported("rollback"):
        from mirrormq.migration.phases import Step

        files = opened(directory)
        take(files, Step.ROLLBACK, timeout)
        shown = files.status()
        for sentence in shown.not_imported if shown else []:
            print(sentence)
        for user in shown.passwords if shown else []:
            print(
                f"User '{user}' needs a new password on the old cluster: rabbitmqctl change_password {user}"
            )


@app.command()
def finish(
    directory: DirOption = DEFAULT_DIRECTORY,
    force: Annotated[
        bool, typer.Option("--force", help="Finish although the verification finds differences.")
    ] = False,
) -> None:
    """End the migration: verify once more, then stop the links. The old cluster stays as it is.

    \b
    Example:
      mirrormq migrate finish
    """
    with reported("finish"):
        from mirrormq.migration.phases import Step, next_phase
        from mirrormq.migration_io import migration_verify
        from mirrormq.migration_io.broker_api import MigrationError

        files = opened(directory)
        next_phase(files.state().phase, Step.FINISH)
        report = migration_verify.verify(files, files.plan(), progress)
        clear()
        if report.differences and not force:
            raise MigrationError(
                f"the clusters differ, first: {report.differences[0]}; see 'mirrormq migrate verify', or use "
                "--force"
            )
        take(files, Step.FINISH, WAIT_S)
        sums = report.totals
        print(f"{sums.moved} messages of {sums.queues} queues were moved; see {files.path / 'report.md'}.")
