"""Requests of external readers: range reads, takes, leases, sink batches and job reports."""
