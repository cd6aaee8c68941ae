"""Chaos test: load and faults on a separate cluster, with a check that no confirmed message is lost."""
