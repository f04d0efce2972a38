"""Fixtures of the real clients: servers, an observer, workers, and a group per library."""

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients import server as servers
from tests.clients.libraries import KAFKA_PYTHON_3, LIBRARIES, Library
from tests.clients.process import Worker
from tests.clients.scene import PARTITIONS, Group, Workers
from tests.clients.server import SETTINGS, External
from tests.support.process import Server, tail

HERE = Path(__file__).parent


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(feature): only for the client libraries that have it")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.clients)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test once per library, but for those that lack what its `needs` marks name."""
    if "library" in metafunc.fixturenames:
        needed = {name for mark in metafunc.definition.iter_markers("needs") for name in mark.args}
        able = [library for library in LIBRARIES if needed <= library.can]
        metafunc.parametrize("library", able, ids=lambda library: library.name, indirect=True)


@pytest.fixture
def library(request: pytest.FixtureRequest) -> Library:
    chosen: Library = request.param
    if chosen.unusable:
        pytest.skip(chosen.unusable)
    return chosen


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server | External]:
    """One server for all tests that do not crash it."""
    if servers.EXTERNAL_BOOTSTRAP is not None:
        yield External(servers.EXTERNAL_BOOTSTRAP)
        return
    one = Server(tmp_path_factory.mktemp("server"), SETTINGS)
    one.start()
    yield one
    one.stop()


@pytest.fixture
def own_server(tmp_path: Path) -> Iterator[Server]:
    """A server that the test may kill."""
    if servers.EXTERNAL_BOOTSTRAP is not None:
        pytest.skip(f"{servers.BOOTSTRAP_VARIABLE} names a server that is not ours to kill")
    one = Server(tmp_path, SETTINGS)
    one.start()
    yield one
    one.stop()


@pytest.fixture(scope="session")
def observer(
    server: Server | External, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Worker]:
    workers = Workers(server, tmp_path_factory.mktemp("observer"))
    yield workers.start(KAFKA_PYTHON_3)
    workers.end()


@pytest.fixture
def workers(server: Server | External, tmp_path: Path) -> Iterator[Workers]:
    started = Workers(server, tmp_path)
    yield started
    started.end()


@pytest.fixture
def group(library: Library, workers: Workers, observer: Worker) -> Group:
    return Group(library, workers, observer)


@pytest.fixture
def own_group(library: Library, own_server: Server, tmp_path: Path) -> Iterator[Group]:
    """A group on a server that the test may kill."""
    started = Workers(own_server, tmp_path)
    yield Group(library, started, started.start(KAFKA_PYTHON_3))
    started.end()


@pytest.fixture
def client(library: Library, workers: Workers) -> Worker:
    """One process of the library, for what needs no group: producing, reading, administration."""
    return workers.start(library)


@pytest.fixture
def topic(observer: Worker) -> str:
    name = f"topic-{uuid.uuid4().hex[:12]}"
    observer.ask("create_topic", topic=name, partitions=PARTITIONS)
    return name


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """The ends of the workers' logs and of the server's, below a failed test."""
    report = yield
    if not report.failed:
        return report
    used = getattr(item, "funcargs", {})
    group = used.get("own_group") or used.get("group")
    started = used.get("workers") or getattr(group, "workers", None)
    for worker in started.all if started else ():
        report.sections.append((f"{worker}", tail(worker.log)))
    one = used.get("own_server") or used.get("server")
    if one is not None:
        report.sections.append(("server log", one.tail()))
    return report
