"""The pytest plugin: fixtures with Kafka brokers, and the history of groups in failure reports.

    @pytest.mark.kafka(topics={"orders": 6})
    def test_my_consumer(kafka_broker):
        consumer = KafkaConsumer("orders", bootstrap_servers=kafka_broker.bootstrap_servers)

Every run of pytest imports this module, so other imports wait until a fixture is used. See
docs/testing-your-consumers.md.
"""

import re
from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from groupkeeper.testing import Broker

MARKER: Final = "kafka"
OF_ITS_OWN: Final = ("settings", "brokers", "as_version", "users", "tls")
"""Arguments not available for a broker shared by several tests."""
ARGUMENTS: Final = ("topics", *OF_ITS_OWN, "faults", "partitions")
"""Arguments of the marker."""
SCOPE: Final = "kafka_shared_scope"
"""Name of the ini option."""
SCOPES: Final = ("session", "package", "module", "class")
GROUPS_SHOWN: Final = 10
LINES_SHOWN: Final = 40
"""Maximum number of lines in each section of a report; the last ones are kept."""
_MARKER_LINE: Final = (
    f"{MARKER}(topics=None, settings=None, brokers=1, as_version=None, users=None, tls=False, "
    "faults=(), partitions=1): arguments for kafka_broker (for kafka_broker_shared only topics "
    "and faults), and the number of partitions for kafka_topic"
)

_BROKERS: Final = pytest.StashKey[dict[str, "Broker"]]()
"""The brokers of a test, by fixture name."""
_NEVER_FIRED: Final = pytest.StashKey[AssertionError]()
"""The error of a test that passed, but left a fault rule that never fired."""

# Any: unchecked arguments of the marker.
_Given = dict[str, Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        SCOPE, "scope of kafka_broker_shared: session, package, module, class", default="session"
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER_LINE)
    scope = config.getini(SCOPE)
    if scope not in SCOPES:
        raise pytest.UsageError(f"{SCOPE}: '{scope}' is not one of {', '.join(SCOPES)}")


# -- the marker ------------------------------------------------------------------------------------


def _given(request: pytest.FixtureRequest) -> _Given:
    """Merge the arguments of all markers of a test; the nearest marker has precedence."""
    given: _Given = {}
    for marker in request.node.iter_markers(MARKER):
        if marker.args:
            _refuse(f"takes only keyword arguments: {', '.join(ARGUMENTS)}")
        for name, value in marker.kwargs.items():
            if name not in ARGUMENTS:
                _refuse(f"has no argument {name!r}, only {', '.join(ARGUMENTS)}")
            if name in ("topics", "settings"):
                if not isinstance(value, dict):
                    _refuse(f"needs a dict for {name}=, such as {{'orders': 6}}, not {value!r}")
                given[name] = {**value, **given.get(name, {})}
            elif name == "faults":
                if not isinstance(value, list | tuple) or not all(
                    isinstance(each, dict) for each in value
                ):
                    _refuse(f"needs a list of dicts for faults=, not {value!r}")
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
        _refuse(f"has invalid arguments: {error}")
        raise  # for mypy: pytest.fail has raised
    return broker


def _add_faults(broker: "Broker", given: _Given) -> None:
    for each in given.get("faults", ()):
        try:
            broker.fault(**each)
        except (TypeError, ValueError) as error:
            _refuse(f"has an invalid fault: {error}")


# -- fixtures --------------------------------------------------------------------------------------


@pytest.fixture
def kafka_broker(request: pytest.FixtureRequest) -> "Iterator[Broker]":
    """A new `groupkeeper.testing.Broker`, with the arguments of the marker `kafka`."""
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
    """A `Broker` shared by tests and reset before each, with topics of the marker `kafka`."""
    from groupkeeper.testing import BrokerDown, RequestFailed

    given, broker = _given(request), _kafka_broker_of_all
    for name in OF_ITS_OWN:
        if name in given:
            _refuse(f"has {name}=, not available for a shared broker: use kafka_broker")
    try:
        broker.reset()
    except BrokerDown:  # crashed or stopped by the previous test
        broker.restart()
        broker.reset()
    try:
        for name, partitions in given.get("topics", {}).items():
            broker.create_topic(name, partitions)
    except (RequestFailed, TypeError, ValueError) as error:
        _refuse(f"has invalid arguments: {error}")
    _add_faults(broker, given)
    _keep(request, "kafka_broker_shared", broker)
    return broker


def _shared_scope(fixture_name: str, config: pytest.Config) -> Any:
    """Return the scope of the shared broker. Any: pytest's literal type of scopes."""
    return config.getini(SCOPE)


@pytest.fixture(scope=_shared_scope)
def _kafka_broker_of_all() -> "Iterator[Broker]":
    broker = _started()
    yield broker
    broker.stop()


@pytest.fixture
def kafka_topic(request: pytest.FixtureRequest) -> str:
    """A new topic in the test's broker, with `partitions` of the marker `kafka`; its name."""
    is_shared = "kafka_broker_shared" in request.fixturenames
    broker: Broker = request.getfixturevalue("kafka_broker_shared" if is_shared else "kafka_broker")
    import secrets

    words = re.sub(r"[^a-zA-Z0-9._-]+", "-", request.node.name)[:100]
    name = f"{words}-{secrets.token_hex(4)}"
    try:
        broker.create_topic(name, _given(request).get("partitions", 1))
    except (TypeError, ValueError) as error:
        _refuse(f"has an invalid partitions=: {error}")
    return name


def _keep(request: pytest.FixtureRequest, name: str, broker: "Broker") -> None:
    """Keep a broker for the report, and as an attribute of a unittest.TestCase instance."""
    request.node.stash.setdefault(_BROKERS, {})[name] = broker
    if request.instance is not None:
        setattr(request.instance, name, broker)


# -- reports ---------------------------------------------------------------------------------------


# Any: pluggy's result. Old-style hook wrappers, which all versions of pytest support.
@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any]:
    """Fail a passed test if a fault rule never fired, early enough for xfail and --pdb."""
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
    """Add the history of groups, the log and the transcript to the report of a failed test."""
    outcome = yield
    report: pytest.TestReport = outcome.get_result()
    if not report.failed or report.when == "teardown":
        return
    never_fired = item.stash.get(_NEVER_FIRED, None)
    if never_fired is not None and call.excinfo is not None and call.excinfo.value is never_fired:
        report.longrepr = str(never_fired)  # its traceback is not useful
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
