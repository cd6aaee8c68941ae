"""Backup of a running cluster to a directory, and restore into an empty cluster, over AMQP."""
