"""What a pipeline command says, as one sentence, when it cannot do its work."""

from __future__ import annotations


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
