"""Blocking AMQP client for Spark's driver and executors: range requests, publishing, consuming.

An executor process runs one task and works sequentially. The client therefore has one channel, no threads and
no callbacks. It knows several nodes of a cluster and continues with another one when a node fails.
"""
