"""A small blocking AMQP client for Spark's driver and executors: ask the broker, publish, consume.

Executors live for one task and do one thing after the other, so this client has one channel, no threads
and no callbacks. It knows several nodes of a cluster and goes on with another one when a node dies.
"""
