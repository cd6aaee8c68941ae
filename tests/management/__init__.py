"""Tests of the HTTP management API, compared with RabbitMQ's and driven by common clients."""
