"""Makes `python -m groupkeeper` run the `groupkeeper` command."""

import sys

from groupkeeper.cli import main

if __name__ == "__main__":
    sys.exit(main())
