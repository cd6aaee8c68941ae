"""What a pipeline command says, as one sentence, when it cannot do its work."""

from __future__ import annotations


class PipelineError(Exception):
    """The job cannot run: the text says why and what to do, in one sentence."""


def sentence(error: BaseException) -> str:
    """The first line of an error of Spark or Java, without the class names and codes before it."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
