"""Sink: DataFrames into exchanges. Rows become messages, each confirmed, and published once despite retries.

A message carries its producer (`x-producer`: the query or the write, and the partition) and a growing number
(`x-publish-id`: the batch and the row). MirrorMQ's queues remember the highest number of each producer and
store no message twice. A retried task therefore publishes from its first row on, with the same numbers, and
the queues keep only new messages. One condition applies: the rows of a partition must come in the same order
each time. They do after reading, filtering, mapping and sorting. After a shuffle (a groupBy, a join, a
repartition) put a `sortWithinPartitions` before the write.
"""
