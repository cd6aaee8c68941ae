"""Batch boundary: stop a query between two batches.

Spark stops a query only by interrupting its current work. The function that gets each batch therefore waits
at a boundary. When the boundary is closed, the running batch continues to its end. The next one is held until
the query is stopped, and has done nothing by then. Spark has recorded its contents and begins with it the
next time.

A held batch waits in Java, in the query's own thread, because the interruption reaches it there.
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
"""Time for which a batch is held: longer than stopping a query takes."""

INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""Exceptions of Java in a thread that was interrupted."""

CANCELLED = re.compile(r"cancelled part of cancelled job group|cancelled Query .*\] was stopped")
"""Texts of Spark for a cancelled job; the second applies if the query's own stop came first."""

STOPPED = f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch: {INTERRUPTIONS[0]}"
"""Text by which Spark recognises an interrupted batch in the error of a Python function. Spark then does not
treat the stop of the query as an error."""


class BatchBoundary:
    """Boundary that stays closed once it is closed."""

    def __init__(self) -> None:
        self._closed = threading.Event()
        self._held = threading.Event()

    def close(self) -> None:
        """Let no further batch begin."""
        self._closed.set()

    @property
    def holds(self) -> bool:
        """Whether a batch is held, which means that none is running."""
        return self._held.is_set()

    def before(self, write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
        """Return the function to pass to foreachBatch in place of `write`; an error of Java becomes one
        sentence.

        Spark searches the whole text of such an error in a way that overflows its stack if the text is long,
        and the query then appears successful. Spark searches for the mark of an interrupted batch, hence an
        interruption keeps that text.
        """

        def write_or_explain(batch: DataFrame, number: int) -> None:
            from py4j.protocol import Py4JError
            from pyspark.errors import PySparkException

            try:
                if self._closed.is_set():
                    self._hold(batch)
                write(batch, number)
            except (Py4JError, PySparkException) as error:
                explanation = reason(error)
                text = f"{STOPPED}: {explanation}" if interrupted(error) else explanation
                raise PipelineError(text) from None

        return write_or_explain

    def _hold(self, batch: DataFrame) -> None:
        java = batch.sparkSession.sparkContext._jvm
        assert java is not None
        self._held.set()
        java.java.lang.Thread.sleep(HOLD_S * 1000)
        raise PipelineError(f"the query did not stop within {HOLD_S} s")


def interrupted(error: BaseException) -> bool:
    """Whether an error of Java is only the interruption of its thread."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        if cause.getClass().getName() in INTERRUPTIONS or CANCELLED.search(cause.getMessage() or ""):
            return True
        cause = cause.getCause()
    return False
