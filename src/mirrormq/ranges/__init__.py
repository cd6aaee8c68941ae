"""Reading a queue by sequence: what clients ask, what they are answered, how messages travel. Pure."""
