"""What is asked of a node about its queues: ranges, takes, leases, and what jobs report."""
