"""Differential tests: small scripts run on RabbitMQ and on MirrorMQ; their transcripts must be equal."""
