"""Settings of a node, read from flags, then the environment, then the file, then defaults."""
