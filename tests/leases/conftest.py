"""Leases are asked for as ranges are."""

from tests.ranges.conftest import queue, range_client  # noqa: F401 - fixtures for the files beside
