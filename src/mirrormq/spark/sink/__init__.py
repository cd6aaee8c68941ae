"""DataFrames into exchanges: rows become messages, each confirmed, and published once however often a task
is tried.

A message carries who published it (`x-producer`: the query or the write, and the partition) and a number that
grows (`x-publish-id`: the batch and the row). MirrorMQ's queues remember the highest number of each producer
and take no message twice. So a task that is tried again publishes from its first row on, with the same
numbers, and only what is new is kept. That asks for one thing: the rows of a partition must come in the
same order each time. They do after reading, filtering, mapping and sorting. After a shuffle (a groupBy, a
join, a repartition) put a `sortWithinPartitions` before the write.
"""
