"""Reporter of a job's progress to its cluster, for the Pipeline page.

Reports are optional. A separate thread sends only the latest one, at most one a second, and repeats an old
one from time to time to show that the job is alive. The reporter stops if the broker does not support
reports, or refuses them.
"""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

from mirrormq.client.amqp_uri import AmqpUri
from mirrormq.ranges import range_protocol
from mirrormq.spark.client.client_errors import BrokerError, ConnectionLost
from mirrormq.spark.client.node_selection import Nodes, Timeouts
from mirrormq.spark.client.range_client import RangeClient

INTERVAL_S = 1.0
"""Interval between two reports: each is a metadata change of the cluster."""

REPEAT_S = 30.0
"""Interval at which a job with a long batch repeats its report; the broker marks a job silent after two
minutes."""

ANSWER_TIMEOUT_S = 5.0
END_TIMEOUT_S = 5.0
"""Time that the end of a job waits for its last report."""

RETRY_S = 2.0
"""Pause before a retry after no node replied."""

NAME_DIGITS = 12

RUNNING, DONE, FAILED = "running", "done", "failed"

Number = int | float | str


@dataclass(frozen=True)
class JobReport:
    """Report of a job."""

    state: str = RUNNING
    text: str = ""
    numbers: Mapping[str, Number] = field(default_factory=dict)
    rows: Sequence[Mapping[str, Any]] = ()


class JobReporter:
    """Reporter as a context manager; it reports how the block ended."""

    def __init__(self, addresses: Sequence[AmqpUri], kind: str, text: str) -> None:
        self.job = f"{kind}-{uuid.uuid4().hex[:NAME_DIGITS]}"
        self._kind = kind
        self._addresses = addresses
        self._report = JobReport(text=text)
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
            self._set(replace(self._report, state=FAILED, text=str(error) or type(error).__name__))
        elif error is not None:
            self._set(replace(self._report, state=FAILED, text="stopped by the operator"))
        elif self._report.state == RUNNING:
            self._set(replace(self._report, state=DONE))
        self._thread.join(END_TIMEOUT_S)

    def update(
        self,
        text: str | None = None,
        numbers: Mapping[str, Number] | None = None,
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Update the report; omitted values stay unchanged."""
        latest = self._report
        self._set(
            JobReport(
                RUNNING,
                latest.text if text is None else text,
                latest.numbers if numbers is None else dict(numbers),
                latest.rows if rows is None else rows,
            )
        )

    def end(self, state: str, text: str) -> None:
        """Set the final state and text, if they are not simply "done"."""
        self._set(replace(self._report, state=state, text=text))

    def _set(self, report: JobReport) -> None:
        with self._changed:
            self._report = report
            self._fresh = True
            self._changed.notify()

    def _send_until_over(self) -> None:
        give_up_s: float | None = None
        with RangeClient(Nodes(self._addresses, 0.0, Timeouts(request_s=ANSWER_TIMEOUT_S))) as range_client:
            while True:
                report = self._next()
                if report.state != RUNNING and give_up_s is None:
                    give_up_s = time.monotonic() + END_TIMEOUT_S
                try:
                    range_client.ask(self._request(report))
                except ConnectionLost:
                    if give_up_s is not None and time.monotonic() > give_up_s:
                        return
                    self._mark_fresh()
                    self._rest(RETRY_S)
                    continue
                except BrokerError:  # the broker does not support reports, or refuses ours
                    return
                if report.state != RUNNING:
                    return
                self._rest(INTERVAL_S)

    def _request(self, report: JobReport) -> Any:
        return range_protocol.report(
            self.job, self._kind, report.state, report.text, report.numbers, report.rows
        )

    def _next(self) -> JobReport:
        """Wait for a new report, or for the repeat interval; return the latest one."""
        with self._changed:
            self._changed.wait_for(lambda: self._fresh, REPEAT_S)
            self._fresh = False
            return self._report

    def _mark_fresh(self) -> None:
        with self._changed:
            self._fresh = True

    def _rest(self, seconds: float) -> None:
        """Pause, unless the final report is pending."""
        with self._changed:
            self._changed.wait_for(lambda: self._report.state != RUNNING and self._fresh, seconds)
