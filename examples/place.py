"""Broker of an example: the one of the URI on the command line, or a node started for the example."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mirrormq.testing import Cluster


@contextmanager
def broker(nodes: int = 1) -> Iterator[str]:
    """Yield the URIs of the nodes, separated by commas; stop started nodes at the end."""
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    with Cluster(nodes=nodes, mirror_all=nodes > 1) as cluster:
        yield ",".join(cluster.uri(index) for index in range(nodes))
