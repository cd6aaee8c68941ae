"""Queues: what is ready, what is out with consumers, who gets the next message. Pure."""
