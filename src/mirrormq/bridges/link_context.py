"""Facts about a running link and its node that a plan needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from mirrormq.metadata.state import MetadataState


class LinkContext(NamedTuple):
    """Context of one link."""

    state: MetadataState
    cluster_name: str
    now_s: Callable[[], int]
    """Returns the Unix time."""
    uri_indexes: Callable[[], tuple[int, int]]
    """Returns the places of the URIs in use in the lists of source and destination."""
