"""Runs the `groupkeeper` command for `python -m groupkeeper`."""

import sys

from groupkeeper.cli import main

if __name__ == "__main__":
    sys.exit(main())
