"""A user's program: it has packages with our folders' names, and runs a server in its process.

    python application.py {theirs,ours} serve ...

Whose packages are imported first. When the server has stopped, a line for each module of the user
says whose it is and where it is, and one for each of our packages that it was imported.
"""

import importlib
import sys

from groupkeeper.cli import main


def look() -> None:
    """Import the user's modules and print where from, and what the server imported."""
    for package in ("coordinator", "protocol", "storage"):
        for module in (package, f"{package}.errors", f"{package}.log"):
            print(importlib.import_module(module).OWNER, importlib.import_module(module).__file__)
        print(f"groupkeeper.{package}", f"groupkeeper.{package}" in sys.modules)


if __name__ == "__main__":
    whose, *arguments = sys.argv[1:]
    if whose == "theirs":
        import coordinator.group
        import protocol.message
        import storage.log

        mine = [coordinator.group, protocol.message, storage.log]
        code = main(arguments)
        assert mine == [sys.modules[each.__name__] for each in mine]
    else:
        code = main(arguments)
    look()
    sys.exit(code)
