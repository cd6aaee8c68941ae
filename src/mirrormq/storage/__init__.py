"""Storage of a node: the journal of all queues, its recovery, and the metadata log."""
