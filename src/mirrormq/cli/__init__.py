"""The programs `mirrormq` and `mirrormqctl`."""
