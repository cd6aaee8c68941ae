"""Where the batches of a query begin, so that it can be stopped between two of them.

Spark stops a query by interrupting whatever it does at that moment, and has no other way. So the function
that is given each batch stands behind a gate. When the gate is closed, the batch that is under way goes on to
its end; the next one is held until the query is stopped, and has done nothing by then. Spark has noted what
is in it and begins with it the next time.

It waits in Java, in the query's own thread, because there the interruption finds it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from mirrormq.spark.pipeline_errors import PipelineError, reason

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

HOLD_S = 120
"""How long a batch is held: longer than anyone takes to stop a query."""

INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""What Java throws in a thread that was told to stop."""

CANCELLED = re.compile(r"cancelled part of cancelled job group|cancelled Query .*\] was stopped")
"""What Spark says of a job that was told to stop: the second where the query's own stop was the first to."""

STOPPED = f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch: {INTERRUPTIONS[0]}"
"""By these words Spark knows from the text of an error of Python that a batch was interrupted because its
query was stopped, and then takes it for no error."""


class BatchBoundary:
    """Open until it is closed; then it stays so."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._held = threading.Event()

    def close(self) -> None:
        """Let no further batch begin."""
        self._closed.set()

    @property
    def holds(self) -> bool:
        """Whether a batch waits, so that none is under way."""
        return self._held.is_set()

    def before(self, write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
        """What foreachBatch is given in place of `write`; an error of Java becomes one sentence.

        Spark looks through the whole text of such an error in a way that overflows its stack if the text is
        long, and the query then seems to have ended well. What it looks for there is whether the batch was
        only interrupted because the query was stopped, so that is said in its own words.
        """

        def write_or_say_why(batch: DataFrame, number: int) -> None:
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException

            try:
                if self._closed.is_set():
                    self._hold(batch)
                write(batch, number)
            except (Py4JError, PySparkException) as error:
                said = reason(error)
                raise PipelineError(f"{STOPPED}: {said}" if interrupted(error) else said) from None

        return write_or_say_why

    def _hold(self, batch: DataFrame) -> None:
        java = batch.sparkSession.sparkContext._jvm
        assert java is not None
        self._held.set()
        java.java.lang.Thread.sleep(HOLD_S * 1000)
        raise PipelineError(f"the query was to be stopped and was not within {HOLD_S} s")


def interrupted(error: BaseException) -> bool:
    """Whether an error of Java is only that it was told to stop."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        if cause.getClass().getName() in INTERRUPTIONS or CANCELLED.search(cause.getMessage() or ""):
            return True
        cause = cause.getCause()
    return False
