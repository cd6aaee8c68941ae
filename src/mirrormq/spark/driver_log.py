"""Warnings for Spark's logs."""

from __future__ import annotations

import sys


def warn(text: str) -> None:
    """Print a line for the log of the driver, or of the executor whose task calls this. Python of a data
    source has no logger of Spark."""
    print(f"WARN mirrormq: {text}", file=sys.stderr, flush=True)
