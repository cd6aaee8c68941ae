"""Broker events: the event exchange, log entries, and the firehose."""
