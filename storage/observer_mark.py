"""The mark of a data directory that belongs to an observer of a cluster, and not to a server.

The file has one JSON object with the id of the cluster. It is written before everything else.
"""

import json

from groupkeeper.storage.errors import Corrupt, StorageError, remedy
from groupkeeper.storage.files.files import Files
from groupkeeper.storage.files.whole import read_whole, replace_whole
from groupkeeper.storage.format import OBSERVER


class OtherDirectory(StorageError):
    """The directory belongs to another process: a server, or the observer of another cluster."""


def check_mark(files: Files, data_dir: str, cluster: str) -> None:
    """Mark an empty or missing directory as one of an observer of this cluster.

    Raises OtherDirectory if it is in use for something else, and OSError.
    """
    path = f"{data_dir}/{OBSERVER}"
    if files.look(path) is None:
        if set(files.list_folder(data_dir)) - {f"{OBSERVER}.tmp"}:
            raise OtherDirectory(
                f"{data_dir} has other data than an observer's: choose an empty --data"
            )
        files.make_folder(data_dir)
        replace_whole(files, path, json.dumps({"cluster": cluster}).encode() + b"\n")
        files.sync_folder(data_dir)
        return
    try:
        known = json.loads(read_whole(files, path))["cluster"]
    except (ValueError, KeyError, TypeError):
        raise Corrupt(f"{path} is damaged: {remedy(data_dir)}") from None
    if known != cluster:
        raise OtherDirectory(
            f"{data_dir} is of the cluster {known}, and {cluster} answers: choose another --data"
        )
