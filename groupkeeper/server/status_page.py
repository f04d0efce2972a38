"""Makes `/status`: looks at the disk, which `observe/status.py` does not."""

import json
from typing import Final

from groupkeeper.observe.http_limits import Page
from groupkeeper.observe.status import DiskUse, status_of
from groupkeeper.server.server import Server
from groupkeeper.storage.journal import FOLDER
from groupkeeper.topics.names import EVENT_TOPIC, GROUP_TOPIC

SIZED_MOST: Final = 2_000
"""Partitions of topics whose sizes are added up: each may cost a look at its folder."""
UNKNOWN: Final = -1


class StatusPage:
    """The page of one server."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def page(self) -> Page:
        """Always 200: `ready` says whether the server is."""
        server = self._server
        found = status_of(server.metrics, server.about(), await self._disk())
        return 200, "application/json", json.dumps(found).encode() + b"\n"

    async def _disk(self) -> DiskUse:
        topics = self._server.topics
        total, free = await topics.positions.space()
        counts = dict(topics.catalog.counts)
        internal = {name: counts.pop(name, 0) for name in (GROUP_TOPIC, EVENT_TOPIC)}
        is_small = sum(counts.values()) <= SIZED_MOST
        return DiskUse(
            total=total,
            free=free,
            journals=await topics.worker(self._journals),
            groups=await self._size({GROUP_TOPIC: internal[GROUP_TOPIC]}),
            events=await self._size({EVENT_TOPIC: internal[EVENT_TOPIC]}),
            topics=await self._size(counts) if is_small else UNKNOWN,
        )

    async def _size(self, counts: dict[str, int]) -> int:
        places = [(name, index) for name, count in counts.items() for index in range(count)]
        extents = await self._server.topics.positions.extents(places)
        return sum(each.size for each in extents.values())

    def _journals(self) -> int:
        """Bytes of all files of journals. On the worker."""
        folder = f"{self._server.store.data_dir}/{FOLDER}"
        files = self._server.files
        looks = (files.look(f"{folder}/{name}") for name in files.list_folder(folder))
        return sum(each.size for each in looks if each is not None)
