"""The pytest plugin, in test suites of users."""

import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "groupkeeper.pytest_plugin"
INI = "[pytest]\nasyncio_default_fixture_loop_scope = function\n"


@pytest.fixture
def suite(pytester: pytest.Pytester) -> pytest.Pytester:
    pytester.makeini(f"{INI}asyncio_mode = auto\naddopts = --strict-markers\n")
    return pytester


def run(suite: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    suite.makepyfile(dedent(source))
    return suite.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider", *options)


# -- fixtures --------------------------------------------------------------------------------------


def test_a_broker_is_fresh_for_each_test(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        @pytest.mark.kafka(topics={"orders": 3}, settings={"num.partitions": 7})
        @pytest.mark.parametrize("times", [1, 2])
        def test_orders(kafka_broker, times):
            assert kafka_broker.records("orders") == []
            assert kafka_broker.produce("orders", "x", partition=2).offset == 0
            assert kafka_broker.produce("auto", "x", partition=6).offset == 0
        """,
    )
    result.assert_outcomes(passed=2)


def test_a_broker_may_be_secure(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest

        @pytest.mark.kafka(topics={"orders": 1}, users={"alice": "secret"}, tls=True)
        def test_orders(kafka_broker):
            found = kafka_broker.for_confluent()
            assert (found["security.protocol"], found["sasl.username"]) == ("SASL_SSL", "alice")
        """,
    )
    result.assert_outcomes(passed=1)


def test_a_shared_broker_is_emptied_before_each_test(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        seen = []

        @pytest.mark.parametrize("times", [1, 2])
        @pytest.mark.kafka(topics={"orders": 1})
        def test_orders(kafka_broker_shared, times):
            seen.append((kafka_broker_shared, kafka_broker_shared.bootstrap_servers))
            assert kafka_broker_shared.produce("orders", "x").offset == 0
            kafka_broker_shared.freeze()
            kafka_broker_shared.crash()

        def test_one(kafka_broker_shared):
            now = kafka_broker_shared, kafka_broker_shared.bootstrap_servers
            assert seen == [now, now]
            first = kafka_broker_shared.produce("new", "x")
            while kafka_broker_shared.produce("new", "x").timestamp_ms == first.timestamp_ms:
                pass  # time runs
        """,
    )
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize(("scope", "brokers"), [("session", 1), ("module", 2)])
def test_the_scope_of_the_shared_broker_is_an_option(
    suite: pytest.Pytester, scope: str, brokers: int
) -> None:
    suite.makeini(f"{INI}kafka_shared_scope = {scope}\n")
    suite.makeconftest("seen = set()\n")
    test = (
        "import conftest\ndef test(kafka_broker_shared): conftest.seen.add(kafka_broker_shared)\n"
    )
    suite.makepyfile(test_a=test, test_b=test)
    last = f"from conftest import seen\ndef test(): assert len(seen) == {brokers}"
    suite.makepyfile(test_c=last)
    suite.runpytest_inprocess("-p", PLUGIN).assert_outcomes(passed=3)


def test_topics_are_new_and_named_after_the_test(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        names = set()

        @pytest.mark.kafka(partitions=4)
        @pytest.mark.parametrize("what", ["a b", "c"])
        def test_topic(kafka_broker, kafka_topic, what):
            assert kafka_topic.startswith("test_topic-")
            assert kafka_broker.produce(kafka_topic, "x", partition=3).offset == 0

        def test_shared(kafka_topic, kafka_broker_shared):
            assert kafka_broker_shared.records(kafka_topic) == []
        """,
    )
    result.assert_outcomes(passed=3)


def test_markers_of_a_class_and_a_test_are_joined(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        pytestmark = pytest.mark.kafka(topics={"a": 1, "b": 1})

        @pytest.mark.kafka(topics={"b": 2})
        class TestAll:
            @pytest.mark.kafka(topics={"c": 3})
            def test(self, kafka_broker):
                for topic, last in ("a", 0), ("b", 1), ("c", 2):
                    assert kafka_broker.produce(topic, "x", partition=last).offset == 0
        """,
    )
    result.assert_outcomes(passed=1)


def test_in_coroutines_with_a_client_on_the_tests_loop(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import pytest
        from aiokafka import AIOKafkaProducer

        @pytest.mark.kafka(topics={"orders": 1})
        async def test(kafka_broker):
            broker = kafka_broker.aio
            async with AIOKafkaProducer(bootstrap_servers=broker.bootstrap_servers) as producer:
                await producer.send_and_wait("orders", b"x")
            [record] = await broker.records("orders")
            assert record.value == b"x"
        """,
    )
    result.assert_outcomes(passed=1)


def test_with_unittest(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        import unittest
        import pytest
        from groupkeeper.testing import Broker

        @pytest.mark.kafka(topics={"orders": 1})
        @pytest.mark.usefixtures("kafka_broker", "kafka_broker_shared")
        class OrdersTest(unittest.TestCase):
            def test(self):
                assert self.kafka_broker.produce("orders", "x").offset == 0
                assert self.kafka_broker_shared.produce("orders", "x").offset == 0

        class PlainTest(unittest.TestCase):
            def setUp(self):
                self.broker = self.enterContext(Broker(topics={"orders": 1}))

            def test(self):
                assert self.broker.produce("orders", "x").offset == 0
        """,
    )
    result.assert_outcomes(passed=2)


# -- faults ----------------------------------------------------------------------------------------

FAULTS = """
    import pytest
    from groupkeeper.testing import effects
    from tests.support.raw_member import member, settle

    @pytest.mark.kafka(faults=[{"effect": effects.error("NOT_COORDINATOR"), "api": "LeaveGroup"}])
    @pytest.mark.parametrize("leaves", [True, False])
    def test(kafka_broker, leaves):
        with member(kafka_broker, "lea") as lea:
            settle(lea)
            if leaves:
                assert lea.leave().error_code == 16
"""


@pytest.mark.parametrize("fixture", ["kafka_broker", "kafka_broker_shared"])
def test_a_fault_that_never_came_fails_the_test(suite: pytest.Pytester, fixture: str) -> None:
    result = run(suite, FAULTS.replace("kafka_broker", fixture))
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*test[[]False[]]*", "*LeaveGroup*", f"*- {fixture}: group *"])


def test_a_fault_that_cannot_be_gets_one_line(suite: pytest.Pytester) -> None:
    result = run(suite, FAULTS.replace('"api": "LeaveGroup"', '"apo": 1'))
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["@pytest.mark.kafka has an invalid fault: *'apo'*"])


# -- arguments -------------------------------------------------------------------------------------


def test_a_wrong_argument_gets_one_line(suite: pytest.Pytester) -> None:
    shared = "kafka_broker_shared"
    for fixture, marker, line in (
        ("kafka_broker", '{"orders": 1}', "takes only keyword arguments: topics, settings"),
        ("kafka_broker", "topic={}", "has no argument 'topic', only topics, settings"),
        ("kafka_broker", "topics=[1]", "needs a dict for topics=, such as {'orders': 6}, not [1]"),
        ("kafka_broker", 'faults=["error"]', "needs a list of dicts for faults=, not ['error']"),
        ("kafka_broker", 'settings={"group.max.sise": 3}', "did you mean group.max.size"),
        ("kafka_broker", 'topics={"a b": 1}', "has invalid arguments: topic 'a b' was not created"),
        (shared, 'settings={"num.partitions": 2}', "has settings=, not available for a shared "),
        (shared, 'topics={"a b": 2}', "has invalid arguments: topic 'a b' "),
        ("kafka_topic", 'partitions="3"', "has an invalid partitions=: *whole number, not '3'"),
    ):
        result = run(
            suite,
            f"""
            import pytest

            @pytest.mark.kafka({marker})
            def test({fixture}):
                pass
            """,
        )
        result.assert_outcomes(errors=1)
        result.stdout.fnmatch_lines([f"@pytest.mark.kafka *{line.replace('[', '[[]')}*"])
        assert "Traceback" not in result.stdout.str()
        assert "def test(" not in result.stdout.str()


def test_a_wrong_scope_is_told(suite: pytest.Pytester) -> None:
    result = run(suite, "def test(): pass", "-o", "kafka_shared_scope=forever")
    result.stderr.fnmatch_lines(["*kafka_shared_scope: 'forever' is not one of session, package*"])


# -- reports ---------------------------------------------------------------------------------------

FAILING = """
    from tests.support.raw_member import member, settle

    def test(kafka_broker):
        with member(kafka_broker, "lea") as lea, member(kafka_broker, "fred") as fred:
            settle(lea, fred)
            fred.leave()
            kafka_broker.group("billing").wait_until(cause="member_left")
        assert 0
"""


@pytest.mark.parametrize("options", [(), ("-n1",)], ids=["alone", "xdist"])
def test_a_failure_shows_groups_log_and_transcript(
    suite: pytest.Pytester, options: tuple[str, ...]
) -> None:
    result = run(suite, FAILING, *options)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*- kafka_broker: group billing -*",
            "*rebalance to generation 2*",
            "*it was closed*",
            "Now: PreparingRebalance*",
            "*- kafka_broker: log -*",
            "*rebalance started*cause='member_left'*",
            "*- kafka_broker: transcript -*",
            "*fred -> LeaveGroup v5: group_id=billing",
        ]
    )


def test_a_failure_after_a_crash_shows_what_was(suite: pytest.Pytester) -> None:
    result = run(suite, FAILING.replace("assert 0", "kafka_broker.crash(); assert 0"))
    result.stdout.fnmatch_lines(["*group billing*", "*generation 2*", "*-- the broker crashed"])


def test_a_failure_after_a_fault_that_crashes_shows_what_was(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        from groupkeeper.testing import effects
        from tests.support.raw_member import member, settle

        def test(kafka_broker):
            kafka_broker.fault(effects.crash_before_durable(), api="OffsetCommit")
            with member(kafka_broker, "lea") as lea:
                settle(lea)
                lea.commit(5)
        """,
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["*group billing -*", "*rebalance to generation 1*", "*-- a fault crashes the broker"]
    )


def test_a_test_that_passes_shows_nothing(suite: pytest.Pytester) -> None:
    result = run(suite, FAILING.replace("assert 0", "pass"))
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*transcript*")


def test_the_end_of_a_long_section_is_shown(suite: pytest.Pytester) -> None:
    result = run(
        suite,
        """
        def test(kafka_broker):
            for number in range(21):
                kafka_broker.restart()
                kafka_broker.commit(f"g{number:02}", {("__consumer_offsets", 0): 1})
            assert 0
        """,
    )
    result.stdout.fnmatch_lines(["*- kafka_broker: groups -*", "11 more are not shown"])
    result.stdout.fnmatch_lines(["*- kafka_broker: transcript -*", "(3 lines before)"])
    result.stdout.fnmatch_lines(["*group g20 -*"])
    result.stdout.no_fnmatch_line("*group g10 -*")


# -- cost ------------------------------------------------------------------------------------------


def test_it_imports_nothing_of_the_broker(tmp_path: Path) -> None:
    code = (
        "import pytest, sys; before = {*sys.modules}; import groupkeeper.pytest_plugin; "
        "print(sorted(each for each in {*sys.modules} - before))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert told.stdout.strip() == "['groupkeeper', 'groupkeeper.pytest_plugin']"


def test_given_by_name_and_by_entry_point_it_is_loaded_once() -> None:
    import tomllib

    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {PLUGIN: PLUGIN}


# -- rules that never fired ------------------------------------------------------------------------

UNFIRED = """
    import unittest
    import pytest
    from groupkeeper.testing import RuleNeverFired, effects

    def add(broker):
        broker.fault(effects.close(), api="LeaveGroup")

    def test_fails(kafka_broker):
        add(kafka_broker)

    @pytest.mark.xfail(strict=True, raises=RuleNeverFired)
    def test_is_expected(kafka_broker):
        add(kafka_broker)

    @pytest.mark.xfail(strict=True)
    async def test_is_expected_of_a_coroutine(kafka_broker):
        add(kafka_broker)

    def test_skips(kafka_broker):
        add(kafka_broker)
        pytest.skip()

    class Test(unittest.TestCase):
        @pytest.fixture(autouse=True)
        def a_broker(self, kafka_broker):
            pass

        def test_of_unittest(self):
            add(self.kafka_broker)

        @unittest.expectedFailure
        def test_fails_itself(self):
            add(self.kafka_broker)
            self.fail()

        @pytest.mark.xfail(strict=True)
        def test_is_expected_too(self):
            add(self.kafka_broker)
"""


def test_a_rule_that_never_fired_fails_the_call_of_a_test(suite: pytest.Pytester) -> None:
    result = run(suite, UNFIRED, "-rf")
    result.assert_outcomes(failed=2, xfailed=4, skipped=1)
    for name in ("test_fails", "Test.test_of_unittest"):
        line = "fault(close(), api='LeaveGroup') never fired (0 requests matched)*"
        result.stdout.fnmatch_lines([f"*_ {name} _*", line], consecutive=True)
    result.stdout.no_fnmatch_line("*def check_faults*")


def test_a_debugger_stops_where_a_rule_never_fired(suite: pytest.Pytester) -> None:
    suite.makeconftest(
        "def pytest_exception_interact(call): print('interacts:', call.excinfo.typename)"
    )
    result = run(suite, UNFIRED, "-k", "test_fails", "-s")
    result.stdout.fnmatch_lines(["*interacts: RuleNeverFired"])


def test_a_wait_that_fails_shows_the_line_of_the_test_and_none_of_ours(
    suite: pytest.Pytester,
) -> None:
    suite.makepyfile("""
        def test_it(kafka_broker):
            kafka_broker.group("billing").wait_until(state="Stable", timeout=0.1)
    """)
    told = suite.runpytest_inprocess("-p", PLUGIN, "-p", "no:cacheprovider").stdout.str()
    assert "group 'billing' did not meet the conditions within 0.1 s" in told
    assert ">       kafka_broker.group" in told or ">   kafka_broker.group" in told
    assert "_last_look" not in told
    assert "waiting.py" not in told
