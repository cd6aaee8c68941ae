"""Error texts of pipeline commands, each one sentence."""

from __future__ import annotations

import re


class PipelineError(Exception):
    """Job cannot run: the text gives the reason and the remedy in one sentence."""


def sentence(error: BaseException) -> str:
    """Return the first line of a Spark error's text; for a Java error that of its root cause."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    text = str(error) if cause is None else cause.getMessage() or cause.toString()
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def reason(error: BaseException) -> str:
    """Return the innermost cause of a Spark error: the last line of a Python traceback in it."""
    _, traceback, rest = str(error).rpartition("Traceback (most recent call last)")
    if traceback:
        # In a traceback only the error itself is not indented.
        for line in rest.splitlines():
            if found := re.match(r"[A-Za-z_][\w.]*: (.+)", line):
                return found[1].strip()
    return sentence(error)
