"""The history of load on a cluster: one row per event, kept as Parquet, judged by the audit job."""

from __future__ import annotations

from mirrormq.history.clock import SteadyClock
from mirrormq.history.schema import SCHEMA, VERSION, Kind
from mirrormq.history.writer import HistoryWriter

__all__ = ["SCHEMA", "VERSION", "HistoryWriter", "Kind", "SteadyClock"]
