"""The top of the command line: its help, its version, and which command is where."""

from importlib import import_module

import click

from groupkeeper import __version__

COMMANDS = {"serve": "serve", "dump": "dump", "analyze": "analyze"}
"""Command -> module of this package that holds a function of the same name."""


class _Commands(click.Group):
    """Imports a command when it is asked for, so that `serve` pays for itself only."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"groupkeeper.cli.{COMMANDS[cmd_name]}")
        found: click.Command = getattr(module, cmd_name)
        return found


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def command() -> None:
    """A Kafka-wire-compatible group coordinator server that remembers why.

    \b
    Start a server, then point any Kafka consumer at it:
      groupkeeper serve
      groupkeeper serve --dev --listen 127.0.0.1:0
    \b
    Look into the log that it leaves, or that Apache Kafka left:
      groupkeeper dump groupkeeper-data
      groupkeeper analyze groupkeeper-data --out report
    """
