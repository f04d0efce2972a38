"""Our own server for one suite: fresh, on free ports, with the settings that the suites expect."""

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path

from tests.suites.suite import Suite, SuiteError, Target
from tests.support.process import Server

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "num.partitions": "4",
}


@contextlib.contextmanager
def serving(suite: Suite, folder: Path) -> Iterator[Target]:
    """A server whose data and log stay in `folder`/server until the next run.

    Raises SuiteError if it does not get ready.
    """
    place = folder / "server"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    server = Server(place, {**SETTINGS, **suite.settings})
    try:
        server.start()
    except AssertionError as error:
        why = str(error).rstrip().rpartition("\n")[2]
        raise SuiteError(f"the server did not become ready: {why} (see {server.log})") from error
    try:
        yield Target(server.bootstrap, server.data_dir, server.http)
    finally:
        server.stop()
