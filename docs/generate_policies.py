"""Writes docs/policies-clients.md from the last recorded results; `--check` compares."""

import sys

from generated import run

from tests.policies.page import PAGE, page

if __name__ == "__main__":
    sys.exit(run(PAGE, page))
