"""Load with faults on a cluster of its own, and the check that nothing confirmed was lost."""
