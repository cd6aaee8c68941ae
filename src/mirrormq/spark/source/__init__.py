"""Queues as DataFrames. `consume.py` explains why each message is read exactly once."""
