"""RabbitMQ's HTTP management API, served in the node's own loop."""
