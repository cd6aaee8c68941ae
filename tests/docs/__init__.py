"""Documentation as a site, and the programs in it."""
