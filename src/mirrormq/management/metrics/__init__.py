"""Prometheus endpoints `/metrics`, `/metrics/per-object` and `/metrics/detailed`, under RabbitMQ's names.

Names, types, labels and help texts are those of RabbitMQ's exporter, so that its dashboards keep working.
Metrics `mirrormq_*` cover rings, failovers and the disk, for which RabbitMQ has no names. Only measured
numbers are present: a number that is not counted is omitted, not shown as 0. Each node reports on itself.

As with RabbitMQ's exporter, no password is needed unless `prometheus.authentication.enabled` is set.
`/metrics` contains no names except the node's; the other endpoints name queues.
"""

from mirrormq.management.metrics.exposition import CONTENT_TYPE
from mirrormq.management.metrics.scrape import PATHS, gather

__all__ = ["CONTENT_TYPE", "PATHS", "gather"]
