"""Commands `mirrormq backup` and `mirrormq restore`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrormq.cli import program_exit

if TYPE_CHECKING:
    from mirrormq.backup.backup_files import Manifest
    from mirrormq.backup.backup_run import Progress

DEFAULT_URI = "amqp://guest:guest@127.0.0.1:5672/%2F"
EXIT_FAILED = 1
EXIT_INCOMPLETE = 3
"""Exit code of a backup that lacks damaged messages; everything else is in it."""

UriOption = Annotated[
    list[str] | None,
    typer.Option(
        envvar="MIRRORMQ_AMQP_URI",
        help="Node of the cluster, amqp:// or amqps://, with an administrator's login; may be repeated.",
    ),
]
PatienceOption = Annotated[float, typer.Option(help="Seconds to wait for a node that does not answer.")]


def backup(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="New or empty directory of the backup.")],
    uri: UriOption = None,
    timeout: PatienceOption = 60.0,
) -> None:
    """Back up metadata and messages of a running cluster.

    Publishers and consumers may go on. Each queue is consistent: it has every message that was in the queue
    when its turn came and was not acknowledged since; unacknowledged messages are included. Name several
    nodes with --uri, and mirrors are read instead of masters. Exit code 3: the backup is complete except for
    messages that are damaged on every reachable node; the queues are named.

    \b
    Example:
      mirrormq backup /backup/monday --uri amqp://admin:secret@node1 --uri amqp://admin:secret@node2
    """
    with _reported("backup", "delete the directory and run it again"):
        from mirrormq.backup.backup_files import BackupWriter
        from mirrormq.backup.backup_run import back_up
        from mirrormq.backup.cluster_access import ClusterAccess

        with ClusterAccess(uri or [DEFAULT_URI], timeout) as cluster:
            manifest = back_up(cluster, BackupWriter(directory), _progress())
        messages = sum(entry.messages for entry in manifest.queues)
        _clear()
        print(f"Backed up {_counted(len(manifest.queues), messages)} to {directory}.")
        if _report_damaged("backup", manifest):
            raise typer.Exit(EXIT_INCOMPLETE)


def restore(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Directory of a backup.")],
    uri: UriOption = None,
    timeout: PatienceOption = 60.0,
    check: Annotated[bool, typer.Option("--check", help="Only verify the backup's files.")] = False,
) -> None:
    """Restore a backup into a cluster without queues, and verify every queue by count and digest.

    Keep other clients away until it has ended. An interrupted restore continues if it is run again. At the
    end the users of the backup replace those of the same name.

    \b
    Example:
      mirrormq restore /backup/monday --uri amqp://admin:secret@node1
    """
    with _reported("restore", "run it again to continue"):
        from mirrormq.backup import restore_run
        from mirrormq.backup.backup_files import BackupReader
        from mirrormq.backup.cluster_access import ClusterAccess

        reader = BackupReader(directory)
        if check:
            queues, messages = restore_run.check(reader, _progress())
            _clear()
            print(f"The backup in {directory} is complete: {_counted(queues, messages)}.")
            _report_damaged("restore", reader.manifest)
            return
        with ClusterAccess(uri or [DEFAULT_URI], timeout) as cluster:
            queues, messages = restore_run.restore(cluster, reader, _progress())
        _clear()
        print(f"Restored {_counted(queues, messages)}; counts and digests agree with the backup.")
        _report_damaged("restore", reader.manifest)


def _report_damaged(command: str, manifest: Manifest) -> bool:
    """Warn of messages that the backup lacks; return whether there are any."""
    for entry in manifest.incomplete:
        count = f"{entry.damaged} damaged message{'s' * (entry.damaged != 1)}"
        text = f"the backup lacks {count} of {entry.title}: no node that was reachable had a good copy"
        print(f"mirrormq {command}: {text}.", file=sys.stderr)
    return bool(manifest.incomplete)


def _counted(queues: int, messages: int) -> str:
    return f"{queues} queue{'s' * (queues != 1)} with {messages} message{'s' * (messages != 1)}"


def _progress() -> Progress:
    """Return a function that shows a line on a terminal, and nothing otherwise."""
    if not sys.stderr.isatty():
        return lambda text: None
    return lambda text: print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def _clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)


@contextmanager
def _reported(command: str, stopped: str) -> Iterator[None]:
    from mirrormq.backup.backup_files import BackupError

    try:
        yield
    except BackupError as error:
        _clear()
        text = str(error)
        print(f"mirrormq {command}: {text}{'' if text.endswith('?') else '.'}", file=sys.stderr)
        raise typer.Exit(EXIT_FAILED) from None
    except KeyboardInterrupt:
        _clear()
        print(f"mirrormq {command}: stopped; {stopped}.", file=sys.stderr)
        raise typer.Exit(program_exit.INTERRUPTED) from None
