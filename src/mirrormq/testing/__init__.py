"""A real local cluster for other people's tests.

    from mirrormq.testing import Cluster

    with Cluster(nodes=1) as cluster:
        connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))

Ports are free ones, data is in a temporary directory, and everything is gone afterwards.
"""

from mirrormq.testing.cluster import Cluster

__all__ = ["Cluster"]
