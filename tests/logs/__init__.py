"""Log lines: content, destination, time."""
