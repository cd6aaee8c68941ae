"""The audit's transforms: each takes DataFrames and gives one, and knows nothing of files or pages.

`docs/audit.md` says what is counted; the rules are written again, independently, in `tests/spark/checker.py`.
Every table has the column `run`, so one DataFrame may hold one large history or a million small ones.
"""
