"""What a path given to `groupkeeper repair` names: which logs, in which data directory."""

from dataclasses import dataclass

from groupkeeper.storage.errors import StorageError
from groupkeeper.storage.files import Files, parent_of
from groupkeeper.storage.folders import is_partition
from groupkeeper.storage.format import FILE_NAME as FORMAT_FILE
from groupkeeper.storage.journal import FOLDER as JOURNALS
from groupkeeper.storage.locks import NODES
from groupkeeper.storage.segment import base_of
from groupkeeper.topics.catalog_log import FOLDERS as CATALOG

_OF_A_SERVER = frozenset({FORMAT_FILE, JOURNALS, NODES, *CATALOG})


class NothingThereError(StorageError):
    """A path that names no log."""


@dataclass(frozen=True)
class Target:
    """The logs to look at."""

    data_dir: str
    """The folder with the partition folders."""
    names: tuple[str, ...] | None = None
    """The partition folders in it; None: all."""
    catalog: bool = False
    """Whether the catalog is one of the logs."""
    served: bool = False
    """It is the data directory of a server, with locks and journals. Else only the folders count: a
    broker's, or a copy."""

    @property
    def path(self) -> str:
        """What to give to `groupkeeper repair`."""
        if self.names is None:
            return self.data_dir
        return f"{self.data_dir}/{self.names[0]}"


def target_of(files: Files, path: str) -> Target:
    """What an existing data directory, partition folder or segment names. Raises NothingThereError
    and OSError.
    """
    folder, _, name = path.rpartition("/")
    if base_of(name) is not None:
        return target_of(files, folder or ".")
    names = files.list_folder(path)
    if _OF_A_SERVER.intersection(names):
        return Target(path, catalog=True, served=True)
    parent = parent_of(path)
    served = bool(_OF_A_SERVER.intersection(files.list_folder(parent)))
    if served and name in CATALOG:  # topics are also known by their folders: look at all
        return Target(parent, catalog=True, served=True)
    if is_partition(name) or any(base_of(each) is not None for each in names):
        return Target(parent, (name,), served=served)
    if any(is_partition(each) for each in names):
        return Target(path)
    raise NothingThereError(
        f"{path} is no data directory, no partition folder and no segment: nothing to repair there"
    )
