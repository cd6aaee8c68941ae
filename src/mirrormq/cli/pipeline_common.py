"""What the pipeline's commands share: exit codes, and options that are pairs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

EXIT_UNUSABLE = 2
"""The job could not run: a wrong option, no history, no Spark. 1 is the answer of a failed audit."""

EXIT_INTERRUPTED = 130
"""What a shell makes of Ctrl-C."""


def spark_settings(given: list[str]) -> dict[str, str]:
    """The settings for Spark of `--conf`."""
    from mirrormq.spark.pipeline_errors import PipelineError

    settings = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key.startswith("spark."):
            raise PipelineError(f"--conf {pair} is not of the form spark.KEY=VALUE")
        settings[key] = value
    return settings


def pairs(option: str, given: list[str]) -> dict[str, str]:
    """KEY=VALUE, any number of times."""
    from mirrormq.spark.pipeline_errors import PipelineError

    found = {}
    for pair in given:
        key, separator, value = pair.partition("=")
        if not separator or not key:
            raise PipelineError(f"{option} {pair} is not of the form KEY=VALUE")
        found[key] = value
    return found


@contextmanager
def told(job: str, stopped: str = "run it again to go on") -> Iterator[None]:
    """What goes wrong becomes one sentence and an exit code."""
    from mirrormq.spark.pipeline_errors import PipelineError

    try:
        yield
    except PipelineError as error:
        print(f"mirrormq pipeline {job}: {error}", file=sys.stderr)
        raise typer.Exit(EXIT_UNUSABLE) from None
    except KeyboardInterrupt:
        print(f"mirrormq pipeline {job}: stopped; {stopped}", file=sys.stderr)
        raise typer.Exit(EXIT_INTERRUPTED) from None
