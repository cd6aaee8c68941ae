"""Sequence numbers of messages: spans of consecutive numbers, and sets of them. Pure."""
