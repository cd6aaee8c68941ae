"""Where a node's settings come from: flags, then the environment, then the file, then defaults."""
