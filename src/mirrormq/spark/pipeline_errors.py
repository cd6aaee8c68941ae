"""What a pipeline command says, as one sentence, when it cannot do its work."""

from __future__ import annotations

import re


class PipelineError(Exception):
    """The job cannot run: the text says why and what to do, in one sentence."""


def sentence(error: BaseException) -> str:
    """The first line of what an error of Spark says; of one of Java, what is at the bottom of it."""
    cause = getattr(error, "java_exception", None)
    while cause is not None and cause.getCause() is not None:
        cause = cause.getCause()
    said = str(error) if cause is None else cause.getMessage() or cause.toString()
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def reason(error: BaseException) -> str:
    """The sentence at the bottom of an error of Spark: of a Python traceback in it, the last line."""
    _, traceback, said = str(error).rpartition("Traceback (most recent call last)")
    if traceback:
        # Of a traceback only the error itself is not indented.
        for line in said.splitlines():
            if found := re.match(r"[A-Za-z_][\w.]*: (.+)", line):
                return found[1].strip()
    return sentence(error)
