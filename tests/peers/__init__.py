"""Peer links: the pure parts, and real sockets, processes and networks."""
