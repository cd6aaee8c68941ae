"""The operator's way into a running node: requests over a Unix socket, one verb at a time."""
