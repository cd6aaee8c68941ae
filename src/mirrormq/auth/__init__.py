"""Authentication and authorisation: passwords, SASL, permissions, limits."""
