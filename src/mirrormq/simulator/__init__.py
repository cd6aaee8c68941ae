"""A whole cluster in one process and one thread, where everything that can go wrong does, by one seed."""
