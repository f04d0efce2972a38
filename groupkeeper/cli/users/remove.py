"""`groupkeeper users remove`."""

from typing import TYPE_CHECKING

import click

from groupkeeper.access.users import SCRAM_TYPES, TYPE_OF, Users, user_key
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.users.place import (
    MECHANISMS,
    UsersPlace,
    chosen,
    mechanism_option,
    place_options,
)

if TYPE_CHECKING:
    from groupkeeper.client import Client


@click.command()
@click.argument("name")
@mechanism_option("Only this mechanism, may be repeated; default all that the user has.")
@place_options
def remove(name: str, mechanisms: tuple[str, ...], place: UsersPlace) -> int:
    """Remove a user: it cannot log in any more.

    Sessions go on until they end: see connections.max.reauth.ms.

    \b
      groupkeeper users remove billing
      groupkeeper users remove billing --mechanism SCRAM-SHA-256
    """
    wanted = chosen(mechanisms, MECHANISMS)
    if place.data_dir is not None:
        from groupkeeper.server.offline_catalog import change_users

        with place.catalog() as catalog:
            has = Users(lambda: catalog.access).iterations(name)
            found = _found(name, wanted, has)
            change_users(catalog, [(user_key(name, each), None) for each in found])
        return 0

    async def work(client: "Client") -> int:
        from groupkeeper.client.users import describe_users, remove_credential

        told = (await describe_users(client, [name])).get(name, {})
        has = {SCRAM_TYPES[each]: rounds for each, rounds in told.items() if each in SCRAM_TYPES}
        for each in _found(name, wanted, has):
            failure = await remove_credential(client, name, TYPE_OF[each])
            if failure is not None:
                raise CommandRefused(f"user '{name}' was not removed for {each}: {failure}")
        return 0

    return place.cluster.run(work)


def _found(name: str, wanted: list[str], has: dict[str, int]) -> list[str]:
    """Return the mechanisms to remove. Raises CommandRefused if there are none."""
    found = [each for each in wanted if each in has]
    if not found:
        known = ", ".join(has) or "no credential"
        raise CommandRefused(f"user '{name}' has no {' or '.join(wanted)}: it has {known}")
    return found
