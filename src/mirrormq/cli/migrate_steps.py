"""Parts that the commands of `mirrormq migrate` share: options, exit codes, steps and waiting."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mirrormq.cli import program_exit
from mirrormq.cli.migrate_output import ProgressScreen

if TYPE_CHECKING:
    from mirrormq.migration.phases import Phase, Step
    from mirrormq.migration_io.migration_directory import MigrationDirectory

EXIT_DIFFERENT = 1
"""Blockers, or unexplained differences."""
EXIT_USAGE = 64
"""EX_USAGE of sysexits.h: the phase does not allow the command, or an option is wrong."""
EXIT_UNAVAILABLE = 69
"""EX_UNAVAILABLE: a cluster or the proxy does not reply."""

POLL_S = 0.2
STATUS_AGE_S = 10.0
"""Age above which a status is not the present one: `run` writes one every half second."""

DirOption = Annotated[Path, typer.Option("--dir", help="Directory of the migration's plan and state.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
DEFAULT_DIRECTORY = Path("mirrormq-migration")

WaitOption = Annotated[
    float, typer.Option("--timeout", help="Seconds to wait for the end of the phase; 0: do not wait.")
]
WAIT_S = 3600.0


@contextmanager
def reported(command: str) -> Iterator[None]:
    """Turn failures into one sentence and an exit code."""
    from mirrormq.migration.phases import Refusal
    from mirrormq.migration_io.broker_api import MigrationError, Unreachable

    try:
        yield
    except Refusal as error:
        code, text = EXIT_USAGE, str(error)
    except Unreachable as error:
        code, text = EXIT_UNAVAILABLE, str(error)
    except MigrationError as error:
        code, text = EXIT_USAGE, str(error)
    except KeyboardInterrupt:
        code, text = program_exit.INTERRUPTED, "stopped; run it again to continue"
    else:
        return
    print(f"mirrormq migrate {command}: {text}.", file=sys.stderr)
    raise typer.Exit(code) from None


def opened(path: Path) -> MigrationDirectory:
    from mirrormq.migration_io.migration_directory import MigrationDirectory

    return MigrationDirectory(path)


def take(files: MigrationDirectory, step: Step, timeout_s: float) -> None:
    """Make a step, and wait until the running process has carried it out."""
    from mirrormq.migration.phases import goal
    from mirrormq.migration_io.broker_api import MigrationError

    state = files.state()
    if not files.is_running():
        from mirrormq.migration.phases import next_phase

        next_phase(state.phase, step)
        raise MigrationError(
            f"nothing carries it out: start 'mirrormq migrate run --dir {files.path}' in another terminal, "
            "then repeat"
        )
    wanted = goal(files.advance(step))
    if timeout_s:
        _wait(files, wanted, timeout_s)
        print(f"Phase {wanted} is reached.")


def _wait(files: MigrationDirectory, wanted: Phase, timeout_s: float) -> None:
    from mirrormq.migration.phases import FINAL
    from mirrormq.migration_io.broker_api import MigrationError

    deadline = time.monotonic() + timeout_s
    with ProgressScreen(False, sys.stderr.isatty()) as screen:
        while True:
            shown = files.status()
            is_reached = shown is not None and shown.phase is wanted and shown.fulfilled
            if is_reached and files.state().phase is wanted:
                return
            if files.state().phase is wanted and wanted in FINAL and not files.is_running():
                return
            if time.monotonic() > deadline:
                why = shown.waiting or shown.error if shown else ""
                reason = f" ({why})" if why else ""
                raise MigrationError(
                    f"phase {wanted} is not reached after {timeout_s:g} s{reason}; it goes on: see 'mirrormq "
                    "migrate status', or undo it with 'mirrormq migrate rollback'"
                )
            if not files.is_running():
                raise MigrationError(
                    f"'mirrormq migrate run' has ended: start it again with --dir {files.path}"
                )
            if shown is not None and time.time() - shown.time < STATUS_AGE_S:
                screen.show(shown)
            time.sleep(POLL_S)


def progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


def clear() -> None:
    if sys.stderr.isatty():
        print("\r\x1b[K", end="", file=sys.stderr, flush=True)
