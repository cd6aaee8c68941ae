"""The node's journal: one append-only log for all queues, its recovery, and the metadata log."""
