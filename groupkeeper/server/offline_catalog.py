"""The catalog of a data directory while no server runs: for its first administrator.

Holds the locks of a server meanwhile.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from groupkeeper.server.directory import Directory
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import Settings
from groupkeeper.storage.errors import Locked
from groupkeeper.storage.files.files import Files
from groupkeeper.topics.catalog import AccessChange, Catalog
from groupkeeper.topics.topics import Topics, TopicsWorld, wall_ms
from groupkeeper.turns import Turns


@contextmanager
def offline_catalog(data_dir: Path, settings: Settings) -> Iterator[Catalog]:
    """Open the catalog, which is created if it is missing. Raises Locked if a server runs on the
    directory, other StorageErrors, and OSError.
    """
    files = Files()
    try:
        directory = Directory(files, ServeOptions(data_dir, settings=settings))
    except Locked as error:
        raise _in_use(data_dir, error) from None
    store = directory.store
    try:
        for shard in range(store.known_shards()):  # also those of a server with another node id
            store.claim(shard)
        world = TopicsWorld(files=files, folders=store.folders)
        topics = Topics(store, directory.settings, world, Turns())
        try:
            yield topics.catalog
        finally:
            topics.worker.close()
            topics.catalog.close()
    except Locked as error:
        raise _in_use(data_dir, error) from None
    finally:
        store.close()


def _in_use(data_dir: Path, error: Locked) -> Locked:
    return Locked(
        f"{data_dir} is in use: {error}; leave out --data-dir and name the server with "
        "--bootstrap-server"
    )


def change_users(catalog: Catalog, changes: Sequence[AccessChange]) -> None:
    """Change users or ACLs; durable when it returns. Raises StorageError."""
    asyncio.run(catalog.change_access(changes, wall_ms()))
