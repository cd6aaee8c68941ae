"""Real brokers for tests: start one, administer it, stop it and nothing else."""
