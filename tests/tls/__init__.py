"""TLS listeners, client certificates and the PROXY protocol on a real node."""
