"""`python -m mirrormq`: the program `mirrormq`."""

from mirrormq.cli.main import main

if __name__ == "__main__":
    main()
