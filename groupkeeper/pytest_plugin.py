"""The pytest plugin: fixtures with Kafka brokers, and what groups did in the report of a failure.

    @pytest.mark.kafka(topics={"orders": 6})
    def test_my_consumer(kafka_broker):
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka_broker.bootstrap_servers)

It is imported by every run of pytest, so it imports nothing until a fixture is used; see
docs/testing-your-consumers.md.
"""

import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from groupkeeper.testing import Broker

MARKER: Final = "kafka"
ARGUMENTS: Final = ("topics", "settings", "brokers", "as_version", "faults", "partitions")
"""Of the marker."""
OF_ITS_OWN: Final = ("settings", "brokers", "as_version")
"""Arguments that a broker of several tests cannot have."""
SCOPE: Final = "kafka_shared_scope"
"""Option of pytest."""
SCOPES: Final = ("session", "package", "module", "class")
GROUPS_SHOWN: Final = 10
LINES_SHOWN: Final = 40
"""Last lines of each section of a report."""
_MARKER_LINE: Final = (
    f"{MARKER}(topics=None, settings=None, brokers=1, as_version=None, faults=(), partitions=1): "
    "the broker of kafka_broker, and of kafka_broker_shared its topics and faults; the partitions "
    "of kafka_topic"
)

_BROKERS: Final = pytest.StashKey[dict[str, "Broker"]]()
"""Of a test, by the names of their fixtures."""
_NEVER_FIRED: Final = pytest.StashKey[AssertionError]()
"""What a test has failed with after it had passed."""

# Any: what a test has written.
_Given = dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SCOPE, "scope of kafka_broker_shared: session, package, module, class", default="session"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER_LINE)
    scope = config.getini(SCOPE)
    if scope not in SCOPES:
        raise pytest.UsageError(f"{SCOPE}: '{scope}' is none of {', '.join(SCOPES)}")


# -- the marker ------------------------------------------------------------------------------------


def _given(request: pytest.FixtureRequest) -> _Given:
    """The arguments of all markers of a test, the nearest first; mappings and lists are joined."""
    given: _Given = {}
    for marker in request.node.iter_markers(MARKER):
        if marker.args:
            _refuse(f"takes no arguments without a name: {', '.join(ARGUMENTS)}")
        for name, value in marker.kwargs.items():
            if name not in ARGUMENTS:
                _refuse(f"has no argument {name!r}: there are {', '.join(ARGUMENTS)}")
            if name in ("topics", "settings"):
                if not isinstance(value, dict):
                    _refuse(f"wants a dict for {name}=, as {{'orders': 6}}, not {value!r}")
                given[name] = {**value, **given.get(name, {})}
            elif name == "faults":
                if not isinstance(value, list | tuple) or not all(
                    isinstance(each, dict) for each in value
                ):
                    _refuse(f"wants a list of dicts for faults=, not {value!r}")
                given[name] = [*given.get(name, ()), *value]
            else:
                given.setdefault(name, value)
    return given


def _refuse(line: str) -> None:
    pytest.fail(f"@pytest.mark.{MARKER} {line}", pytrace=False)


def _started(**given: Any) -> "Broker":
    from groupkeeper.testing import Broker, RequestFailed, SettingsError

    try:
        broker = Broker(**given)
        broker.start()
    except (SettingsError, RequestFailed, TypeError, ValueError) as error:
        _refuse(f"asks for what cannot be: {error}")
        raise  # for mypy: pytest.fail has raised
    return broker


def _add_faults(broker: "Broker", given: _Given) -> None:
    for each in given.get("faults", ()):
        try:
            broker.fault(**each)
        except (TypeError, ValueError) as error:
            _refuse(f"has a fault that cannot be: {error}")


# -- fixtures --------------------------------------------------------------------------------------


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A fresh `groupkeeper.testing.Broker`, with what the marker `kafka` says."""
    given = _given(request)
    broker = _started(**{k: v for k, v in given.items() if k not in ("faults", "partitions")})
    try:
        _add_faults(broker, given)
        _keep(request, "kafka_broker", broker)
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def kafka_broker_shared(request: pytest.FixtureRequest, _kafka_broker_of_all: "Broker") -> "Broker":
    """One `Broker` for many tests, emptied before each; with the topics of the marker `kafka`."""
    from groupkeeper.testing import BrokerDown, RequestFailed

    given, broker = _given(request), _kafka_broker_of_all
    for name in OF_ITS_OWN:
        if name in given:
            _refuse(f"gives {name}=, which a shared broker cannot have: use kafka_broker")
    try:
        broker.reset()
    except BrokerDown:  # the test before has left it so
        broker.restart()
        broker.reset()
    try:
        for name, partitions in given.get("topics", {}).items():
            broker.create_topic(name, partitions)
    except (RequestFailed, TypeError, ValueError) as error:
        _refuse(f"asks for what cannot be: {error}")
    _add_faults(broker, given)
    _keep(request, "kafka_broker_shared", broker)
    return broker


def _shared_scope(fixture_name: str, config: pytest.Config) -> Any:
    """Any: pytest's names of scopes."""
    return config.getini(SCOPE)


@pytest.fixture(scope=_shared_scope)
def _kafka_broker_of_all() -> "Iterator[Broker]":
    broker = _started()
    yield broker
    broker.stop()


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest) -> str:
    """The name of a new topic in the test's broker, with `partitions` of the marker `kafka`."""
    is_shared = "kafka_broker_shared" in request.fixturenames
    broker: Broker = request.getfixturevalue("kafka_broker_shared" if is_shared else "kafka_broker")
    import secrets

    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:100]
    name = f"{words}-{secrets.token_hex(4)}"
    try:
        broker.create_topic(name, _given(request).get("partitions", 1))
    except (TypeError, ValueError) as error:
        _refuse(f"asks for what cannot be with partitions=: {error}")
    return name


def _keep(request: pytest.FixtureRequest, name: str, broker: "Broker") -> None:
    """For the report; and as an attribute of the instance of a unittest.TestCase."""
    request.node.stash.setdefault(_BROKERS, {})[name] = broker
    if request.instance is not None:
        setattr(request.instance, name, broker)


# -- reports ---------------------------------------------------------------------------------------


# Any: pluggy's result. Hooks of the old style: the plugin is loaded by any version of pytest.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any]:
    """Fail a test that has passed if its fault rules never fired; xfail and --pdb see that."""
    outcome = yield
    if outcome.excinfo is not None:
        return
    for broker in item.stash.get(_BROKERS, {}).values():
        try:
            broker.check_faults()
        except AssertionError as error:
            item.stash[_NEVER_FIRED] = error
            outcome.force_exception(error)
            return


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any]:
    """Show what groups did in a test that has failed."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if not report.failed or report.when == "teardown":
        return
    never_fired = item.stash.get(_NEVER_FIRED, None)
    if never_fired is not None and call.excinfo is not None and call.excinfo.value is never_fired:
        report.longrepr = str(never_fired)  # where it was raised says nothing
    for name, broker in item.stash.get(_BROKERS, {}).items():
        report.sections += _sections(name, broker)


def _sections(name: str, broker: "Broker") -> Iterator[tuple[str, str]]:
    groups = broker.groups_seen()
    for group in groups[-GROUPS_SHOWN:]:
        yield f"{name}: group {group}", _end_of(broker.timeline(group))
    if len(groups) > GROUPS_SHOWN:
        yield f"{name}: groups", f"{len(groups) - GROUPS_SHOWN} more are not shown"
    if broker.logs:
        yield f"{name}: log", _end_of("\n".join(broker.logs))
    yield f"{name}: transcript", _end_of(broker.transcript())


def _end_of(text: str) -> str:
    lines = text.splitlines()
    more = len(lines) - LINES_SHOWN
    return "\n".join(lines if more <= 0 else [f"({more} lines before)", *lines[more:]])
