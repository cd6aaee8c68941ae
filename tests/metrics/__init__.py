"""Tests of the Prometheus endpoints, compared with RabbitMQ's exporter."""
