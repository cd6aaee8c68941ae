"""A job tells the cluster it works on how it is getting on, so that people see it on the Pipeline page.

Nothing depends on it: the words are sent by a thread of their own, the latest one only, at most one a second,
and one that is not new from time to time so that the job is not taken for dead. A broker that does not know
such reports, or does not let us give them, is left alone.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from mirrormq.ranges import range_protocol
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost
from mirrormq.spark.client.node_address import NodeAddress
from mirrormq.spark.client.node_selection import Nodes, Timeouts
from mirrormq.spark.client.range_client import RangeClient

INTERVAL_S = 1.0
"""Between two words: the broker agrees on each in the whole cluster."""

REPEAT_S = 30.0
"""A job whose batch takes long says so again; the broker calls one silent after two minutes."""

ANSWER_TIMEOUT_S = 5.0
END_TIMEOUT_S = 5.0
"""How long the end of a job waits for its last word to be taken."""

RETRY_S = 2.0
"""Before a cluster of which no node answered is tried again."""

NAME_DIGITS = 12

RUNNING, DONE, FAILED = "running", "done", "failed"

Number = int | float | str


@dataclass(frozen=True)
class JobReport:
    """What is said at one time."""

    state: str = RUNNING
    text: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()


class JobReporter:
    """Use as a context manager; it says how the block ended."""

    def __init__(self, addresses: Sequence[NodeAddress], kind: str, text: str) -> None:
        self.job = f"{kind}-{uuid.uuid4().hex[:NAME_DIGITS]}"
        self._kind = kind
        self._addresses = addresses
        self._word = JobReport(text=text)
        self._changed = threading.Condition()
        self._fresh = True
        self._thread = threading.Thread(target=self._send_until_over, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, Exception):
            self._say(replace(self._word, state=FAILED, text=str(error) or type(error).__name__))
        elif error is not None:
            self._say(replace(self._word, state=FAILED, text="stopped by hand"))
        elif self._word.state == RUNNING:
            self._say(replace(self._word, state=DONE))
        self._thread.join(END_TIMEOUT_S)

    def tell(
        self,
        text: str | None = None,
        numbers: Mapping[str, Number] | None = None,
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """How it stands; what is left out stays as it was."""
        word = self._word
        self._say(
            JobReport(
                RUNNING,
                word.text if text is None else text,
                word.numbers if numbers is None else dict(numbers),
                word.rows if rows is None else rows,
            )
        )

    def end(self, state: str, text: str) -> None:
        """How it ended, where that is not simply that it did."""
        self._say(replace(self._word, state=state, text=text))

    def _say(self, word: JobReport) -> None:
        with self._changed:
            self._word = word
            self._fresh = True
            self._changed.notify()

    def _send_until_over(self) -> None:
        give_up_s: float | None = None
        with RangeClient(Nodes(self._addresses, 0.0, Timeouts(request_s=ANSWER_TIMEOUT_S))) as range_client:
            while True:
                word = self._next()
                if word.state != RUNNING and give_up_s is None:
                    give_up_s = time.monotonic() + END_TIMEOUT_S
                try:
                    range_client.ask(self._question(word))
                except ConnectionLost:
                    if give_up_s is not None and time.monotonic() > give_up_s:
                        return
                    self._say_again()
                    self._rest(RETRY_S)
                    continue
                except BrokerError:  # it knows no reports, or does not want ours
                    return
                if word.state != RUNNING:
                    return
                self._rest(INTERVAL_S)

    def _question(self, word: JobReport) -> Any:
        return range_protocol.report(self.job, self._kind, word.state, word.text, word.numbers, word.rows)

    def _next(self) -> JobReport:
        """The latest word once it is new, or has been said long ago."""
        with self._changed:
            self._changed.wait_for(lambda: self._fresh, REPEAT_S)
            self._fresh = False
            return self._word

    def _say_again(self) -> None:
        with self._changed:
            self._fresh = True

    def _rest(self, seconds: float) -> None:
        """No more words for so long, but for the last one."""
        with self._changed:
            self._changed.wait_for(lambda: self._word.state != RUNNING and self._fresh, seconds)
