"""`groupkeeper users list`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import click

from groupkeeper.access.users import SCRAM_TYPES, Users
from groupkeeper.cli.tables import show
from groupkeeper.cli.users.place import UsersPlace, place_options

if TYPE_CHECKING:
    from groupkeeper.client import Client


@click.command(name="list")
@place_options
def list(place: UsersPlace) -> int:  # noqa: A001  # the name of the command
    """List users by name, with their mechanisms. Keys are not shown.

    \b
      groupkeeper users list
      groupkeeper users list --data-dir groupkeeper-data --json
    """
    if place.data_dir is not None:
        with place.catalog() as catalog:
            users = Users(lambda: catalog.access)
            found = {each: users.iterations(each) for each in users.names() if each is not None}
        _show(found, as_json=place.cluster.as_json)
        return 0

    async def work(client: "Client") -> int:
        from groupkeeper.client.users import describe_users

        told = await describe_users(client, [])
        found = {
            name: {SCRAM_TYPES.get(kind, str(kind)): rounds for kind, rounds in has.items()}
            for name, has in told.items()
        }
        _show(found, as_json=place.cluster.as_json)
        return 0

    return place.cluster.run(work)


def _show(found: Mapping[str, Mapping[str, int]], *, as_json: bool) -> None:
    rows = [
        {"user": name, "mechanism": mechanism, "iterations": rounds}
        for name, has in sorted(found.items())
        for mechanism, rounds in sorted(has.items())
    ]
    show(rows, as_json=as_json)
