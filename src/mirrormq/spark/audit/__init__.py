"""Transforms of the audit, from DataFrames to a DataFrame, independent of files and pages.

`docs/audit.md` defines the counts; `tests/spark/checker.py` implements the rules again, independently.
Every table has the column `run`, so one DataFrame may hold one large history or a million small ones.
"""
