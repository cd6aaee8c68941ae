"""Links between nodes: the pure parts, and real sockets, processes and networks."""
