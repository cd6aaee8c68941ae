"""Local cluster of real nodes for tests of applications.

    from mirrormq.testing import Cluster

    with Cluster(nodes=1) as cluster:
        connection = pika.BlockingConnection(pika.URLParameters(cluster.uri(0)))

Nodes use free ports and a temporary directory; leaving the block stops them and removes the data.
"""

from mirrormq.testing.cluster import Cluster

__all__ = ["Cluster"]
