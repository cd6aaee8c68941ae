"""`python -m mirrormq.perf` is `mirrormq perf`."""

from mirrormq.cli.perf import main

main()
