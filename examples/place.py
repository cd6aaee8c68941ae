"""The broker of an example: that of the URI on the command line, or else one that is started for it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from mirrormq.testing import Cluster


@contextmanager
def broker(nodes: int = 1) -> Iterator[str]:
    """Give the URIs of the nodes, with commas between them; what was started is stopped in the end."""
    if len(sys.argv) > 1:
        yield sys.argv[1]
        return
    with Cluster(nodes=nodes, mirror_all=nodes > 1) as cluster:
        yield ",".join(cluster.uri(index) for index in range(nodes))
