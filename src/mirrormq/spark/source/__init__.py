"""Queues as DataFrames. `stream.py` says why each message comes exactly once."""
