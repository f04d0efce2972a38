"""The `groupkeeper` command group: its help, its version and its commands."""

from importlib import import_module
from typing import Final

import click

from groupkeeper import __version__


class CommandRefused(click.ClickException):
    """A correct call is refused or gets no answer: exit code 1. The text gives the reason, and what
    to do.
    """


EXIT_CODES: Final = (
    "Exit codes: 0 done and sound, 1 refused, failed or something is wrong, 2 usage error."
)
"""The last line of each command's help."""


class LazyGroup(click.Group):
    """A group of commands that are imported only when they are called.

    `places` has the module of each command in the order of the help; the module has a function with
    the name of the command.
    """

    places: dict[str, str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module = import_module(f"groupkeeper.cli.{self.places[cmd_name]}")
        found: click.Command = getattr(module, cmd_name.replace("-", "_"))
        found.epilog = EXIT_CODES
        return found


def lazy_group(places: dict[str, str]) -> type[LazyGroup]:
    """Return the class of a group with these commands."""
    return type("Commands", (LazyGroup,), {"places": places})


COMMANDS = {
    "demo": "demo.command",
    "serve": "serve",
    "status": "status",
    "why": "why.command",
    "observe": "observe",
    "groups": "groups.command",
    "users": "users.command",
    "dump": "dump.command",
    "repair": "repair.command",
    "backup": "backup",
    "restore": "backup",
    "analyze": "analyze.command",
    "simulate": "simulate",
    "certs": "certs",
    "tokens": "tokens.command",
}
"""Command -> the module of this package that defines it, as a function of the same name."""


@click.group(
    cls=lazy_group(COMMANDS),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=True,
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def command() -> None:
    """A Kafka-wire-compatible group coordinator server that remembers why.

    \b
    See in half a minute what it does:
      groupkeeper demo
    \b
    Start a server, then point any Kafka consumer at it:
      groupkeeper serve
      groupkeeper serve --dev --listen 127.0.0.1:0
    \b
    Run a test broker whose time, faults and crashes tests control over HTTP:
      groupkeeper serve --dev --control
    \b
    Check its health:
      groupkeeper status
    \b
    Ask why a group rebalanced, and what to change:
      groupkeeper why billing --since 3h
    \b
    Keep why the groups of another Kafka cluster rebalance:
      groupkeeper observe --bootstrap-server kafka:9092
    \b
    Manage consumer groups, of this or any Kafka cluster:
      groupkeeper groups describe --all-groups --lag-seconds
    \b
    Manage users that log in:
      groupkeeper users add admin --data-dir groupkeeper-data
    \b
    Read its logs, or those of an Apache Kafka broker:
      groupkeeper dump groupkeeper-data
      groupkeeper analyze groupkeeper-data --out report
    \b
    Compare designs of rebalancing, before you choose one:
      groupkeeper simulate rolling-leave
    \b
    See what is left of damaged data, and salvage it:
      groupkeeper repair groupkeeper-data
    \b
    Make certificates for a server with TLS:
      groupkeeper certs certificates --host kafka.example
    \b
    Make tokens for those who may use its HTTP port:
      groupkeeper tokens add prometheus --role read --file tokens
    """
