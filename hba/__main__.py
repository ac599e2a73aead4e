"""`python -m hba` is the command `hba`."""

from hba.cli import main

if __name__ == "__main__":
    main()
