"""History of load on a cluster: one row per event in Parquet files, judged by the audit job."""

from __future__ import annotations

from mirrormq.history.event_schema import SCHEMA, VERSION, EventKind
from mirrormq.history.history_writer import HistoryWriter, SteadyClock

__all__ = ["SCHEMA", "VERSION", "EventKind", "HistoryWriter", "SteadyClock"]
