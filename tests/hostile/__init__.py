"""Clients that mean harm, or that are broken, against a real node beside one that behaves."""
