"""The `groupkeeper` command.

Commands have modules of their own, which are imported, like click, when they are called.
"""

import os
import sys
from collections.abc import Sequence

USAGE_ERROR = 2
INTERRUPTED = 130
NOT_READ = 141
"""As of a process that SIGPIPE ends: whoever read standard output does not any more."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code. A user error is one line on standard error and 2."""
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
    except BrokenPipeError:  # of `| head`; what is still buffered must not raise again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return NOT_READ
    return result if isinstance(result, int) else 0
