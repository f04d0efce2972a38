"""The `groupkeeper` command.

Only the way in: commands live in modules of their own and are imported when they are called, and
so is click. Nothing of the server is decided here.
"""

import sys
from collections.abc import Sequence

USAGE_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. Whatever the user got wrong is one line and 2."""
    import click

    from groupkeeper.cli.app import command

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
