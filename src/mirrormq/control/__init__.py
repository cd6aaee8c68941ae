"""Operator interface of a running node: one command per request, over a Unix socket or HTTP."""
