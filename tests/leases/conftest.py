"""Fixtures of lease requests, which are range requests."""

from tests.ranges.conftest import queue, range_client  # noqa: F401 - fixtures for the files beside
