"""The data directory as a server opens it: whether there is one, what it was made with, and whether
it stays.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from groupkeeper.groups.writer import Writer
from groupkeeper.observe.logs import Logger
from groupkeeper.server.partition_count import KEY, OffsetsFolders
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import Settings
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files import Files
from groupkeeper.storage.folders import is_partition
from groupkeeper.storage.format import FILE_NAME, VERSION
from groupkeeper.storage.journal import FOLDER as JOURNALS
from groupkeeper.storage.limits import Limits
from groupkeeper.storage.store import Store
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.names import GROUP_TOPIC

LOOK_S: Final = 0.5
"""How long the directory may be gone before an idle server notices, and how long the journal or the
node's lock alone may be gone before any does. A round of commits notices at once that the directory
is gone; messages to topics do not, so this is how long they are acknowledged in vain."""

NAMED: Final = 5
"""So many folders of no topic are named in the line about them."""

_log = Logger("data")


class NoDataError(StorageError):
    """There is no data where there has to be some."""


class Directory:
    """Opens the store, and remembers what to say about the directory once clients are served."""

    def __init__(self, files: Files, options: ServeOptions) -> None:
        """Takes the node's lock. Raises StorageError and OSError."""
        self._files = files
        self._path = str(options.data_dir)
        settings = options.settings
        self.is_new = not self._has_data()
        if self.is_new and settings.data_dir_must_exist:
            raise NoDataError(
                f"{self._path} holds no data, and data.dir.must.exist is set: is its volume "
                "mounted? For a first start, set it to false"
            )
        limits = Limits(segment_bytes=settings.offsets_topic_segment_bytes)
        self.store = Store(files, self._path, options.node_id, limits)
        for what in self.store.take_repairs():
            _log.warning("data directory repaired", what=what)
        self._found = self.store.format
        try:
            self.settings = self._as_made(settings)
        except BaseException:
            self.store.close()
            raise

    def _has_data(self) -> bool:
        names = self._files.list_folder(self._path)
        return (
            any(name in (FILE_NAME, *CATALOG) or is_partition(name) for name in names)
            or self._files.list_folder(f"{self._path}/{JOURNALS}") != []
        )

    def _as_made(self, settings: Settings) -> Settings:
        """As in Kafka, the offsets topic keeps the number of partitions that its data was made
        with: under any other number a group would be looked for where it is not.
        """
        asked = settings.offsets_topic_num_partitions
        made_with = self.store.known_shards()
        if made_with:
            if made_with != asked:
                _log.warning(f"{KEY} is fixed once there is data", asked=asked, used=made_with)
        else:
            made_with = self._as_copied(asked, given=KEY in settings.given)
        return replace(settings, offsets_topic_num_partitions=made_with)

    def _as_copied(self, asked: int, *, given: bool) -> int:
        """The number for folders of the offsets topic that come from elsewhere, if any do."""
        folders = {
            int(index): f"{self._path}/{name}"
            for name in self.store.log_names()
            for topic, _, index in [name.rpartition("-")]
            if topic == GROUP_TOPIC
        }
        if not folders:
            return asked
        found = OffsetsFolders(self._files, self._path, folders).partition_count(asked, given=given)
        if found != asked:
            _log.warning(f"{KEY} is taken from the data", asked=asked, used=found)
        return found

    def write_format(self) -> None:
        """What has to be there is there: from now on it is a directory of the newest format."""
        self.store.upgrade_format(self.settings.offsets_topic_num_partitions)

    def introduce(self, cluster_id: str) -> None:
        """Say what was found, if it was not what every start finds."""
        made = self.store.format
        assert made is not None, "settled before"
        about = {"data_dir": self._path, "directory": made.directory_id, "cluster": cluster_id}
        if self.is_new:
            _log.info("new data directory", **about)
        elif self._found is None:
            _log.info("older data directory, carried forward", to_format=VERSION, **about)


async def tell_of(strange_folders: Awaitable[Sequence[str]]) -> None:
    """One line about partition folders of no topic: what is in them, no client will find."""
    try:
        names = await strange_folders
    except OSError as error:
        _log.error("the data directory cannot be listed", error=str(error))
        return
    if names:
        some = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        _log.warning("folders of no topic", count=len(names), folders=some)


class DirectoryWatch:
    """Looks twice a second whether the directory and its locks are still ours."""

    def __init__(
        self,
        writer: Writer,
        lost: Callable[[int], None],
        give_up: Callable[[BaseException], None],
    ) -> None:
        """Begins at once. ``lost`` is called with a shard, ``give_up`` once at most."""
        self._writer = writer
        self._lost = lost
        self._give_up = give_up
        self._loop = asyncio.get_running_loop()
        self._stopped = False
        self._wait()

    def stop(self) -> None:
        self._stopped = True
        self._timer.cancel()

    def _wait(self) -> None:
        self._timer = self._loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        self._writer.call(self._writer.store.verify).add_done_callback(self._looked)

    def _looked(self, done: "asyncio.Future[list[int]]") -> None:
        if self._stopped or done.cancelled():
            return
        error = done.exception()
        if error is not None:
            self._give_up(error)
            return
        for shard in done.result():
            self._lost(shard)
        self._wait()
