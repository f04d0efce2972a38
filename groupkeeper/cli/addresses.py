"""Options of commands that name a port to connect to."""

import click

from groupkeeper.settings.options import Address, parse_address


def port_address(_ctx: click.Context, _param: click.Parameter, text: str) -> Address:
    """A callback for options that take HOST:PORT; port 0 is refused."""
    try:
        return parse_address(text, any_port=False)
    except ValueError as problem:
        raise click.BadParameter(str(problem)) from None
