"""What Prometheus scrapes, beside RabbitMQ's own exporter."""
