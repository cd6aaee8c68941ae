"""Progress line on the terminal, since Spark's own output is disabled."""

from __future__ import annotations

import sys
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

INTERVAL_S = 0.5
"""Interval between two updates of the line."""


class ProgressLine:
    """Line with step, text, tasks of the running stages and the time; nothing if stderr is not a terminal."""

    def __init__(self, steps: int, name: str) -> None:
        self.steps = steps
        self.name = name
        self.step = 0
        self.text = "starting Spark"
        self.spark: SparkSession | None = None
        """Session whose tasks are counted; set once it exists."""
        self._began = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._draw_until_done, daemon=True)
        self._shown = sys.stderr.isatty()

    def __enter__(self) -> Self:
        if self._shown:
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        if self._shown:
            self._thread.join()
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def update(self, step: int, text: str) -> None:
        """Set the current step."""
        self.step, self.text = step, text

    def _draw_until_done(self) -> None:
        while True:
            elapsed = time.monotonic() - self._began
            tasks = self._tasks()
            line = f"{self.name} {self.step}/{self.steps}: {self.text}{tasks}  {elapsed:.0f} s"
            sys.stderr.write(f"\r{line}\x1b[K")
            sys.stderr.flush()
            if self._done.wait(INTERVAL_S):
                return

    def _tasks(self) -> str:
        """Return finished and total tasks of the running stages; empty for a Connect session, which does not
        report them."""
        context = getattr(self.spark, "_sc", None)
        if context is None:
            return ""
        try:
            tracker = context.statusTracker()
            stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        except Exception:  # the session is being stopped
            return ""
        running = [stage for stage in stages if stage is not None]
        if not running:
            return ""
        return f", {sum(s.numCompletedTasks for s in running)} of {sum(s.numTasks for s in running)} tasks"
