"""Deterministic simulator: a whole cluster in one process and one thread, with faults drawn from one seed."""
