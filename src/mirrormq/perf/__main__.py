"""Entry point of `python -m mirrormq.perf`, equal to `mirrormq perf`."""

from mirrormq.cli.perf import main

main()
