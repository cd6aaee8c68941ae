"""Queues as DataFrames. `consume.py` says why each message comes exactly once."""
