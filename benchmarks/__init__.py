"""Measurements beside RabbitMQ: `make bench`."""
