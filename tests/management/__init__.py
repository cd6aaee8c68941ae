"""The HTTP management API, beside RabbitMQ's and with the clients people use."""
