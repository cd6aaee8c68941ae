"""Benchmarks against RabbitMQ: `make bench`."""
