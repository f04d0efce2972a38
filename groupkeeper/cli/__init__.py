"""The `groupkeeper` command.

Each command has its own module, which is imported, like click, only when the command is called.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

USAGE_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code. A user error is one line on standard error and 2."""
    import click

    from groupkeeper.cli.app import command

    if isinstance(sys.stdout, TextIOWrapper):  # for names that the locale cannot show
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        result = command.main(
            None if arguments is None else [*arguments],
            prog_name="groupkeeper",
            standalone_mode=False,
        )
    except click.ClickException as problem:
        print(f"groupkeeper: {problem.format_message()}", file=sys.stderr)
        return USAGE_ERROR
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return result if isinstance(result, int) else 0
