"""Exit codes and option parsers shared by the pipeline's commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from mirrormq.cli import program_exit

EXIT_UNUSABLE = 2
"""Exit code of a job that could not run: invalid option, no history, no Spark. Code 1 is a failed audit."""


def spark_settings(given: list[str]) -> dict[str, str]:
    """Parse the Spark settings of `--conf`."""
    from mirrormq.spark.pipeline_errors import PipelineError

    settings = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise PipelineError(f"--conf {pair} is not of the form spark.KEY=VALUE")
        settings[key] = value
    return settings


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """Parse options of the form KEY=VALUE."""
    from mirrormq.spark.pipeline_errors import PipelineError

    found = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise PipelineError(f"{option} {pair} is not of the form KEY=VALUE")
        found[key] = value
    return found


@contextmanager
def errors_reported(job: str, stopped: str = "run it again to continue") -> Iterator[None]:
    """Turn errors of a job into one sentence and an exit code."""
    from mirrormq.spark.pipeline_errors import PipelineError

    try:
        yield
    except PipelineError as error:
        print(f"mirrormq pipeline {job}: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNUSABLE) from None
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("mirrormq"):
            raise
        text = f"the package {error.name} is not installed: run pip install 'mirrormq[spark]'"
        print(f"mirrormq pipeline {job}: {text}", file=sys.stderr)
        raise typer.Exit(EXIT_UNUSABLE) from None
    except KeyboardInterrupt:
        print(f"mirrormq pipeline {job}: stopped; {stopped}", file=sys.stderr)
        raise typer.Exit(program_exit.INTERRUPTED) from None
