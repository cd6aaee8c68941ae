"""The same small scripts run on RabbitMQ and on MirrorMQ, and their transcripts must be equal."""
