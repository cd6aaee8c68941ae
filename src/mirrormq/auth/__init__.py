"""Who may come in, and what they may touch: passwords, SASL, permissions, limits."""
