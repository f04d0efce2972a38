"""The `groupkeeper` command.

Each command has its own module, which is imported, like click, only when the command is called.
"""

import sys
from collections.abc import Sequence
from io import TextIOWrapper

FAILED = 1
USAGE_ERROR = 2
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; return the exit code. An error is one line on standard error: 2 for a wrong
    call, 1 where a command that was called well is refused or gets no answer.
    """
    import click

    from groupkeeper.cli.app import CommandRefused, command

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
        return FAILED if isinstance(problem, CommandRefused) else USAGE_ERROR
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return result if isinstance(result, int) else 0
