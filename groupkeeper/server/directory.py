"""The data directory of a server: opens and checks it, and watches that it stays."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from groupkeeper.groups.writer import Writer
from groupkeeper.observe.logs import Logger
from groupkeeper.server.copied_data import (
    KEY,
    OffsetsFolders,
    newest_epoch_of_commits,
    newest_epoch_of_logs,
)
from groupkeeper.server.unusable import opening_directory
from groupkeeper.settings.options import ServeOptions
from groupkeeper.settings.table import Settings
from groupkeeper.storage.backup.note import refuse_backup
from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.folders import is_partition
from groupkeeper.storage.format import FILE_NAME, RESTORING, refuse_observer
from groupkeeper.storage.journal.journal import FOLDER as JOURNALS
from groupkeeper.storage.store import Store
from groupkeeper.topics.catalog import Catalog
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG
from groupkeeper.topics.effective_configs import EffectiveConfigs
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.topics.partitions import unknown_folders

LOOK_S: Final = 0.5
"""Seconds between two checks. A flush of commits notices immediately that the directory is gone; an
idle server, or one that lost only the journal or the node's lock, after this time. Until then,
produced messages may be acknowledged and lost."""

MEMORY_JOURNAL_BYTES: Final = 4 * 1024 * 1024
"""Size at which an in-memory journal rolls. Its contents are also in segments, so journals take
memory twice: the current one, and full ones until each of their logs was synced."""

MEMORY_SEGMENT_BYTES: Final = 4 * 1024 * 1024
"""Size at which an in-memory segment of the offsets topic rolls, unless a setting says otherwise:
only segments that no longer grow are compacted."""

MEMORY_EVENT_BYTES: Final = 64 * 1024 * 1024
"""Maximum bytes of events in memory, unless a setting says otherwise."""

NAMED: Final = 5
"""Maximum number of folders without a topic in the log line."""

_log = Logger("data")


class Directory:
    """Opens the store, and logs notable facts about the directory when clients are served."""

    def __init__(self, files: Files, options: ServeOptions) -> None:
        """Take the node's lock. Raises StorageError and OSError."""
        self._files = files
        self._path = str(options.data_dir)
        settings = options.settings
        refuse_backup(files, self._path)
        refuse_observer(files, self._path)
        self.is_new = not self._has_data()
        if self.is_new and settings.data_dir_must_exist:
            raise StorageError(
                f"{self._path} has no data, and data.dir.must.exist is set: is its volume "
                "mounted? For a first start, set it to false"
            )
        self._in_memory = options.memory
        limits = EffectiveConfigs(settings).group_topic_policy.limits
        if options.memory:
            limits = replace(limits, journal_bytes=MEMORY_JOURNAL_BYTES)
            if "offsets.topic.segment.bytes" not in settings.given:
                limits = replace(limits, segment_bytes=MEMORY_SEGMENT_BYTES)
        with opening_directory(self._path, "--data-dir"):
            self.store = Store(files, self._path, options.node_id, limits)
        for what in self.store.take_repairs():
            _log.warning("data directory repaired", what=what)
        self._found = self.store.format
        self._copied: list[str] = []
        """Folders of the offsets topic that no Groupkeeper server has written to."""
        try:
            self.settings = self._in_memory_settings(self._as_made(settings))
        except BaseException:
            self.store.close()
            raise

    def _has_data(self) -> bool:
        names = self._files.list_folder(self._path)
        return (
            any(name in (FILE_NAME, RESTORING, *CATALOG) or is_partition(name) for name in names)
            or self._files.list_folder(f"{self._path}/{JOURNALS}") != []
        )

    def _as_made(self, settings: Settings) -> Settings:
        """Return the settings with the number of partitions of the existing data, as in Kafka.
        Under another number, groups would not be found.
        """
        asked = settings.offsets_topic_num_partitions
        count = self.store.known_shards()
        if count:
            if count != asked:
                _log.warning(f"{KEY} is fixed once there is data", asked=asked, used=count)
        else:
            count = self._as_copied(asked, given=KEY in settings.given)
        return replace(settings, offsets_topic_num_partitions=count)

    def _in_memory_settings(self, settings: Settings) -> Settings:
        """Return the settings with the limits for memory, if the data is there."""
        if not self._in_memory or "group.events.retention.total.bytes" in settings.given:
            return settings
        return replace(settings, group_events_retention_total_bytes=MEMORY_EVENT_BYTES)

    def _as_copied(self, asked: int, *, given: bool) -> int:
        """Return the number for copied folders of the offsets topic; `asked` if there are none."""
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
        self._copied = list(folders.values())
        return found

    def leader_epoch(self, catalog: Catalog) -> int:
        """Return the leader epoch that topics need because of data copied from a broker. That is
        the catalog's epoch if it is new enough. Raises OSError.
        """
        topics = [*catalog.by_name.values(), *catalog.being_deleted.values()]
        folders = [f"{self._path}/{n}" for n in unknown_folders(self.store.log_names(), topics)]
        newest = max(
            newest_epoch_of_logs(self._files, folders),
            newest_epoch_of_commits(self._files, self._copied),
        )
        if newest <= catalog.leader_epoch:
            return catalog.leader_epoch
        _log.info("leader epoch of topics continues that of the data", epoch=newest + 1)
        return newest + 1

    def write_format(self) -> None:
        """Write the format file: everything that the format requires is in place."""
        self.store.write_format(self.settings.offsets_topic_num_partitions)

    def log_findings(self, cluster_id: str) -> None:
        """Log whether the directory is new, or lacked its format file."""
        made = self.store.format
        assert made is not None, "written before"
        about = {"data_dir": self._path, "directory": made.directory_id, "cluster": cluster_id}
        if self._in_memory:
            _log.info("data is in memory and ends with this process", cluster=cluster_id)
        elif self.is_new:
            _log.info("new data directory", **about)
        elif self._found is None:
            _log.info("data directory adopted", **about)


async def log_unknown_folders(unknown_folders: Awaitable[Sequence[str]]) -> None:
    """Log partition folders that belong to no topic: clients cannot reach their data."""
    try:
        names = await unknown_folders
    except OSError as error:
        _log.error("the data directory cannot be listed", error=str(error))
        return
    if names:
        some = ", ".join(names[:NAMED]) + (", ..." if len(names) > NAMED else "")
        _log.warning("folders without a topic", count=len(names), folders=some)


class DirectoryWatch:
    """Checks twice a second whether this process still owns the directory and its locks."""

    def __init__(
        self, writer: Writer, lost: Callable[[int], None], give_up: Callable[[BaseException], None]
    ) -> None:
        """Begin immediately. `lost` is called with each lost shard, `give_up` at most once."""
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
