"""What every test shares: an environment without our variables, calm property tests, and a whole
server in memory with its log lines.
"""

import io
import json
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

from groupkeeper.observe import logs
from tests.support.collector import restore_collector
from tests.support.process import inherit_no_ignored_signals
from tests.support.served import Lines, Served
from tests.tiers import is_long

# A loaded machine is no reason to fail; how long an example takes is not what these tests ask. What
# fails prints how to run it again (docs/testing.md).
settings.register_profile("groupkeeper", deadline=None, print_blob=True)
settings.load_profile("groupkeeper")


def pytest_configure(config: pytest.Config) -> None:
    inherit_no_ignored_signals()
    refuse_missing_paths(config)


def refuse_missing_paths(config: pytest.Config) -> None:
    """End at once and name the paths of the command line that do not exist: workers of xdist start
    first, find no tests, and do not say why.
    """
    paths = {argument.partition("::")[0] for argument in config.args}
    missing = sorted(each for each in paths if not (config.invocation_params.dir / each).exists())
    if missing:
        raise pytest.UsageError(f"no such file or folder: {', '.join(missing)}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--short",
        action="store_true",
        help="leave the tests of the long tier out, unless paths are given: see tests/tiers.py",
    )
    parser.addoption(
        "--rewrite", action="store_true", help="write the transcripts anew; review the diff"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--short") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        long = [
            each
            for each in items
            if is_long(each.nodeid, on_spark=each.get_closest_marker("spark") is not None)
        ]
        left = {*long}
        items[:] = [each for each in items if each not in left]
        config.hook.pytest_deselected(items=long)


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    """What the developer's shell exports must not change what a test sees."""
    for name in [name for name in os.environ if name.startswith("GROUPKEEPER_")]:
        del os.environ[name]


@pytest.fixture(autouse=True)
def _collector() -> Iterator[None]:
    """Collections of garbage are not changed by tests before this one."""
    yield
    restore_collector()


@pytest.fixture
def serve() -> Iterator[Callable[..., Served]]:
    """Start servers in memory; settings are `key=value`."""
    started: list[Served] = []

    def serve(*assignments: str, **options: Any) -> Served:
        started.append(Served(*assignments, **options))
        return started[-1]

    yield serve
    for served in started:
        served.close()


@pytest.fixture
def served(serve: Callable[..., Served]) -> Served:
    """A server in memory with four partitions of the offsets topic."""
    return serve("offsets.topic.num.partitions=4")


@pytest.fixture
def lines() -> Iterator[Lines]:
    """What was logged so far, from info on."""
    stream = io.StringIO()
    logs.configure(stream)

    def lines() -> list[dict[str, Any]]:
        assert logs.flush(20)
        return [json.loads(line) for line in stream.getvalue().splitlines()]

    yield lines
    logs.configure()
