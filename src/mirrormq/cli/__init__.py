"""Command-line programs `mirrormq` and `mirrormqctl`."""
