"""Leases are asked for as ranges are."""

from tests.ranges.conftest import asker, queue  # noqa: F401 - fixtures for the files beside
