"""`/metrics`, `/metrics/per-object`, `/metrics/detailed`: what Prometheus scrapes, under RabbitMQ's names.

Names, types, labels and help texts are those of RabbitMQ's own exporter, so that dashboards made for it go on
working; `mirrormq_*` tells of rings, failovers and the disk what RabbitMQ has no name for. Only what this
node measures is there: a number that nobody counts is left out, not shown as nought. Each node tells of
itself.

Like RabbitMQ's exporter it asks for no password unless `prometheus.authentication.enabled` is set. `/metrics`
tells numbers and no names but the node's; the others name queues.
"""

from mirrormq.management.metrics.exposition import CONTENT_TYPE
from mirrormq.management.metrics.scrape import PATHS, gather

__all__ = ["CONTENT_TYPE", "PATHS", "gather"]
