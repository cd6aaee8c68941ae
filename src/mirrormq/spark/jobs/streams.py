"""Running a streaming query from a terminal: a line of progress, an end at a batch boundary, one sentence."""

from __future__ import annotations

import json
import math
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mirrormq.spark.errors import PipelineError, sentence
from mirrormq.spark.jobs.reporter import Reporter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

POLL_S = 0.5
"""How often the query is looked at."""

STOP_PATIENCE_S = 60.0
"""How long a batch may still take after Ctrl-C before it is given up; it is then done again next time."""

INTERRUPTIONS = (
    "java.lang.InterruptedException",
    "java.io.InterruptedIOException",
    "java.nio.channels.ClosedByInterruptException",
)
"""What Java throws in a thread that was told to stop."""

CANCELLED = "part of cancelled job group"
"""What Spark says of a job that was told to stop."""

STOPPED = f"py4j.protocol.Py4JJavaError: An error occurred while calling a batch: {INTERRUPTIONS[0]}"
"""By these words Spark knows from the text of an error of Python that a batch was interrupted because its
query was stopped, and then takes it for no error."""


class Follower:
    """What was seen of a query's progress."""

    def __init__(self, name: str, reporter: Reporter | None = None, more: Callable[[], str] = str) -> None:
        self.rows = 0
        self._more = more
        self._reporter = reporter
        self._name = name
        self._batch = -1
        self._shown = sys.stderr.isatty()

    def see(self, progress: dict[str, Any] | None) -> None:
        """Count a batch once, draw the line, and tell the cluster."""
        if progress is None or progress["batchId"] <= self._batch:
            return
        self._batch = progress["batchId"]
        # Over Spark Connect only the sources say so.
        self.rows += sum(source["numInputRows"] for source in progress["sources"])
        rate = sum(source.get("processedRowsPerSecond") or 0.0 for source in progress["sources"])
        waiting = behind(progress)
        numbers = {"batch": self._batch, "messages": self.rows, "per_second": round(rate, 1)}
        text = f"batch {self._batch}, {self.rows:,} messages, {rate:,.0f}/s"
        if waiting is not None:
            numbers["behind"] = waiting
            text += f", {waiting:,} behind"
        text += self._more()
        if self._reporter is not None:
            self._reporter.tell(text, numbers)
        if self._shown:
            sys.stderr.write(f"\r{self._name}: {text}\x1b[K")
            sys.stderr.flush()

    def end(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def behind(progress: dict[str, Any]) -> int | None:
    """How many messages wait, as the source's last offset says."""
    offsets = [source.get("latestOffset") for source in progress["sources"]]
    try:
        found = [json.loads(offset) if isinstance(offset, str) else offset for offset in offsets]
        return sum(int(offset["behind"]) for offset in found)
    except (KeyError, TypeError, ValueError):
        return None


def follow(
    query: StreamingQuery,
    name: str,
    reporter: Reporter | None = None,
    *,
    for_s: float = math.inf,
    more: Callable[[], str] = str,
) -> Follower:
    """Until the query ends, so many seconds have passed or Ctrl-C is pressed: both of these stop it after the
    batch that is being worked on. `more` is what the line of progress ends with.

    A batch that begins in the moment of the stop is interrupted. That is no error, and it is done again next
    time; an error that a batch had of its own is told.
    """
    from pyspark.errors import PySparkException

    follower = Follower(name, reporter, more)
    try:
        give_up_s = 0.0
        until_s = time.monotonic() + for_s
        with _interrupts() as pressed:
            while not query.awaitTermination(POLL_S):  # type: ignore[arg-type]
                for progress in query.recentProgress:
                    follower.see(json.loads(progress.json))
                if not pressed.is_set() and time.monotonic() < until_s:
                    give_up_s = time.monotonic() + STOP_PATIENCE_S
                elif not query.status["isTriggerActive"] or time.monotonic() > give_up_s:
                    query.stop()
                    if (error := query.exception()) is not None:
                        raise error
                    break
    except PySparkException as error:
        raise PipelineError(f"the {name} stopped: {reason(error)}") from None
    finally:
        for progress in query.recentProgress:
            follower.see(json.loads(progress.json))
        follower.end()
    return follower


def briefly(write: Callable[[DataFrame, int], object]) -> Callable[[DataFrame, int], None]:
    """For foreachBatch: an error of Java becomes one sentence.

    Spark looks through the whole text of such an error in a way that overflows its stack if the text is long,
    and the query then seems to have ended well. What it looks for there is whether the batch was only
    interrupted because the query was stopped, so that is said in its own words.
    """

    def write_or_say_why(batch: DataFrame, number: int) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        try:
            write(batch, number)
        except (Py4JError, PySparkException) as error:
            said = reason(error)
            raise PipelineError(f"{STOPPED}: {said}" if interrupted(error) else said) from None

    return write_or_say_why


def interrupted(error: BaseException) -> bool:
    """Whether an error of Java is only that it was told to stop."""
    cause = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    while cause is not None:
        if cause.getClass().getName() in INTERRUPTIONS or CANCELLED in (cause.getMessage() or ""):
            return True
        cause = cause.getCause()
    return False


def reason(error: BaseException) -> str:
    """The sentence at the bottom of an error of Spark: of a Python traceback in it, the last line."""
    _, traceback, said = str(error).rpartition("Traceback (most recent call last)")
    if traceback:
        # Of a traceback only the error itself is not indented.
        for line in said.splitlines():
            if found := re.match(r"[A-Za-z_][\w.]*: (.+)", line):
                return found[1].strip()
    return sentence(error)


@contextmanager
def _interrupts() -> Iterator[threading.Event]:
    """Notes Ctrl-C instead of raising it; a second one is raised."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def note(number: int, frame: object) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)
