"""Connections: from the protocol header to close-ok, with authentication and heartbeats. Pure."""
