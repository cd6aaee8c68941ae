"""MirrorMQ: a RabbitMQ-compatible AMQP 0-9-1 broker cluster with mirrored queues."""

from mirrormq import builds

__version__ = "0.1.0"

builds.install()
