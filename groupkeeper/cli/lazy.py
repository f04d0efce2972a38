"""A group of commands that are imported only when they are called."""

from importlib import import_module

import click


class LazyGroup(click.Group):
    """`places` says for each command, in the order of the help, which module has it, as a function
    with the name of the command.
    """

    places: dict[str, str]

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.places]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.places:
            return None
        module = import_module(f"groupkeeper.cli.{self.places[cmd_name]}")
        found: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return found


def lazy_group(places: dict[str, str]) -> type[LazyGroup]:
    """The class of a group with these commands."""
    return type("Commands", (LazyGroup,), {"places": places})
