"""`python -m tests.chaos.altered MODULE:NAME=NUMBER ... serve ...`: a server with other constants.

For attacks on limits in time that take too long to wait for: nothing of that is in the product.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence


def program(constants: Mapping[str, float]) -> Sequence[str]:
    """The program, with other values of constants: `package.module:NAME`."""
    assigned = (f"{name}={value}" for name, value in constants.items())
    return [sys.executable, "-m", "tests.chaos.altered", *assigned]


def main(arguments: list[str]) -> int:
    """Change the constants, then do what the `groupkeeper` command does."""
    while "=" in arguments[0]:
        name, _, value = arguments.pop(0).partition("=")
        module, _, constant = name.partition(":")
        changed = importlib.import_module(module)
        assert hasattr(changed, constant), f"{module} has no {constant}"
        setattr(changed, constant, float(value))
    from groupkeeper.cli import main as command

    return command(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
