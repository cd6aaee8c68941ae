"""Lines of CPU per message of three nodes with mirrored queues; clients are spread over all nodes."""

from __future__ import annotations

from benchmarks.cost_lines import identical, many_clients, unlike, work_queue
from benchmarks.costs import CostLine

CLUSTER_COST_LINES = (
    CostLine(
        "cost-clients",
        "50 publishers × 50 consumers, window 10, varied, ack each, persistent",
        10,
        many_clients(10),
    ),
    CostLine("cost-paced", "the same, window 1, paced at 1,000/s", 4, many_clients(1, pace=1000)),
    CostLine("cost-work-queue", "work queue, prefetch 1, ten consumers, persistent", 4, work_queue),
    CostLine("cost-window1", "window 1, one publisher", 2.5, many_clients(1, publishers=1, consumers=0)),
    CostLine("cost-window1-20", "window 1, 20 publishers", 5, many_clients(1, publishers=20, consumers=0)),
    CostLine(
        "cost-unlike",
        "unlike publishes: ten routing keys, own properties, 50–150 B, persistent, window 1000",
        None,
        unlike,
        at_most_us=25,
    ),
    CostLine(
        "cost-like",
        "identical messages, persistent, published and consumed, ack each",
        None,
        identical(True, True),
    ),
)
