"""RabbitMQ's HTTP management API, served in the node's event loop."""
