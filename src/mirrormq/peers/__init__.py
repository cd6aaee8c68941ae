"""Peer links without sockets or clocks: handshake, framing, lanes and failure detector. Pure."""
