"""The `groupkeeper` command group: its help, its version and its commands."""

from importlib import import_module

import click

from groupkeeper import __version__

COMMANDS = ("serve", "dump", "repair", "analyze", "backup", "restore")
"""Each is a function in the module of this package with the same name."""


class _Commands(click.Group):
    """Imports a command only when it is used, to keep the start of `serve` short."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"groupkeeper.cli.{cmd_name}")
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
    Read its log, or that of an Apache Kafka broker:
      groupkeeper dump groupkeeper-data
      groupkeeper analyze groupkeeper-data --out report
    \b
    See what is left of damaged data, and keep that:
      groupkeeper repair groupkeeper-data
    """
