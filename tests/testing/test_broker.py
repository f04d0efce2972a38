"""The life of a test broker: start, reset, crash, restart, stop."""

import asyncio
import gc
import multiprocessing
import signal
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from groupkeeper.settings.table import SettingsError
from groupkeeper.storage.errors import StorageError
from groupkeeper.testing import AsyncBroker, Broker, BrokerDown, RequestFailed
from tests.support.raw_member import address
from tests.support.requests import join_request, leave_request, sync_request
from tests.support.wire import Gone
from tests.testing.wired import commit, committed, dial

PLACE = ("orders", 0)


def _commit(broker: Broker, offset: int) -> int:
    with dial(broker) as client:
        return commit(client, {PLACE: offset})[PLACE]


def _committed(broker: Broker) -> int | None:
    with dial(broker) as client:
        return committed(client).get(PLACE)


def test_the_topics_of_the_start_are_there() -> None:
    with Broker(topics={"orders": 1}) as broker:
        assert _commit(broker, 7) == 0


@pytest.mark.parametrize("data", [None, "disk"])
def test_what_was_acknowledged_survives_a_crash(data: str | None, tmp_path: Path) -> None:
    with Broker(topics={"orders": 1}, data=data and tmp_path / data) as broker:
        before = broker.bootstrap_servers, broker.cluster_id
        assert _commit(broker, 7) == 0
        with dial(broker) as client:
            client.call(4, ListGroupsRequest())
            broker.crash()
            with pytest.raises((Gone, ConnectionError)):
                client.call(4, ListGroupsRequest())
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(address(broker), 1).close()
        broker.restart()
        assert (broker.bootstrap_servers, broker.cluster_id) == before
        assert _committed(broker) == 7


def test_data_on_a_disk_is_there_for_the_next_broker(tmp_path: Path) -> None:
    for offset in (None, 7):
        with Broker(topics={"orders": 1}, data=tmp_path) as broker:
            assert _committed(broker) == offset
            assert _commit(broker, 7) == 0


def test_reset_forgets_all_but_the_topics_port_and_cluster_id() -> None:
    with Broker(topics={"orders": 1}) as broker:
        before = broker.bootstrap_servers, broker.cluster_id
        assert _commit(broker, 7) == 0
        with dial(broker) as client:
            client.call(4, ListGroupsRequest())
            broker.reset()
            with pytest.raises((Gone, ConnectionError)):
                client.call(4, ListGroupsRequest())
        assert (broker.bootstrap_servers, broker.cluster_id) == before
        assert _committed(broker) is None
        assert _commit(broker, 0) == 0


def test_a_directory_is_not_emptied(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker, pytest.raises(RequestFailed, match="data="):
        broker.reset()


@pytest.mark.parametrize("call", [Broker.crash, Broker.reset])
def test_a_broker_that_does_not_run_says_so(call: Callable[[Broker], None]) -> None:
    broker = Broker()
    with pytest.raises(BrokerDown, match="start"):
        call(broker)
    with pytest.raises(BrokerDown, match="first start"):
        _ = broker.bootstrap_servers


def test_wrong_arguments_are_told_before_anything_runs() -> None:
    with pytest.raises(SettingsError, match=r"did you mean group\.max\.size"):
        Broker(settings={"group.max.sise": 3})
    with (
        pytest.raises(RequestFailed, match=r"'a b' was not created: .*is invalid"),
        Broker(topics={"a b": 1}),
    ):
        pass


def test_settings_have_the_values_of_python() -> None:
    settings = {"auto.create.topics.enable": False, "group.max.size": 1}
    with Broker(settings=settings) as broker:
        assert _commit(broker, 7) == 3


async def test_in_a_coroutine() -> None:
    async with Broker(topics={"orders": 1}) as broker:
        host, port = broker.bootstrap_servers.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()


def test_any_number_run_at_once_and_leave_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    before = {*threading.enumerate()}
    brokers = [Broker(topics={"orders": 1}) for _ in range(10)]
    for number, broker in enumerate(brokers):
        broker.start()
        assert _commit(broker, number) == 0
    for number, broker in enumerate(brokers):
        assert _committed(broker) == number
        broker.stop()
        broker.stop()
    assert {*threading.enumerate()} <= before
    assert capfd.readouterr() == ("", "")


def test_lines_of_the_last_moment_are_kept_too(capfd: pytest.CaptureFixture[str]) -> None:
    with Broker() as broker, dial(broker) as client:
        member = client.call(3, join_request()).member_id
        client.call(3, sync_request(member, 1, plan={member: b""}))
        client.call(4, leave_request(member))
    assert capfd.readouterr() == ("", "")
    assert any("member removed" in line for line in broker.logs)


def test_a_start_that_fails_leaves_nothing(tmp_path: Path) -> None:
    before = {*threading.enumerate()}
    with Broker(data=tmp_path):
        second = Broker(data=tmp_path)
        with pytest.raises(StorageError, match="already running"):
            second.start()
        with pytest.raises(BrokerDown):
            second.crash()
    assert {*threading.enumerate()} <= before


@pytest.fixture
def collected(caplog: pytest.LogCaptureFixture) -> None:
    """No garbage of other tests is left, whose warnings would come in the middle of this one."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while gc.collect():
            pass
    caplog.clear()


@pytest.mark.usefixtures("collected")
def test_what_is_asked_while_the_broker_ends_leaves_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A coroutine that was never awaited would be a warning, in a test that passed."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ask_while_it_ends()
        gc.collect()
    assert not caplog.records


def _ask_while_it_ends() -> None:
    with Broker(topics={"orders": 1}) as broker:
        running = broker._bench.running
        asked: list[Future[int]] = []

        async def answer() -> int:
            asked.append(running.later(again()))
            return 1

        async def again() -> int:
            await asyncio.sleep(60)
            return 2

        def ask() -> None:  # files are closed when tasks have been ended
            asked.append(running.later(answer()))

        close = running.files.kill
        running.files.kill = lambda: (ask(), close())  # type: ignore[method-assign]
        running.soon(running.loop.stop)
        running._thread.join(60)
        running.files.kill = close  # type: ignore[method-assign]
        assert len(asked) == 2
        assert all(each.cancelled() or each.result() == 1 for each in asked)


def test_python_s_switch_interval_stays() -> None:
    before = sys.getswitchinterval()
    with Broker(topics={"orders": 1}) as broker:
        broker.restart()
        broker.restart()
    assert sys.getswitchinterval() == before


@pytest.mark.filterwarnings("error::ResourceWarning")
def test_a_connection_that_is_being_accepted_is_closed() -> None:
    """Also if the broker is killed in the middle of it, which one of some eighty tries hits."""
    with Broker() as broker:
        for _ in range(250):
            with socket.create_connection(address(broker)):
                broker.reset()
    gc.collect()


@pytest.mark.parametrize("data", [None, "disk"])
def test_a_fork_holds_nothing_of_the_broker(data: str | None, tmp_path: Path) -> None:
    """multiprocessing forks by default on Linux until Python 3.13."""
    with Broker(data=data and tmp_path / data) as broker, dial(broker) as client:
        client.call(4, ListGroupsRequest())
        lasts = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
        lasts.start()
        try:
            broker.crash()
            with pytest.raises((Gone, ConnectionError)):
                client.call(4, ListGroupsRequest())
            broker.restart()
        finally:
            lasts.kill()
            lasts.join()


def test_a_fork_cannot_use_the_broker() -> None:
    def ask() -> None:
        with pytest.raises(BrokerDown, match="not in its forks"):
            broker.groups()
        broker.stop()

    with Broker(topics={"orders": 1}) as broker:
        child = multiprocessing.get_context("fork").Process(target=ask)
        child.start()
        child.join(60)
        assert child.exitcode == 0
        assert _commit(broker, 1) == 0


def test_a_handler_of_signals_may_call_the_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the signal comes in the middle of another call."""
    asked: list[list[str]] = []
    with Broker() as broker:
        before = signal.signal(signal.SIGUSR1, lambda *_: asked.append(broker.groups()))
        loop = broker._bench.running.loop
        tell = loop.call_soon_threadsafe

        def interrupted(*given: Any, **named: Any) -> Any:
            monkeypatch.undo()
            signal.raise_signal(signal.SIGUSR1)
            return tell(*given, **named)

        monkeypatch.setattr(loop, "call_soon_threadsafe", interrupted)
        try:
            assert broker.groups() == []
        finally:
            signal.signal(signal.SIGUSR1, before)
    assert asked == [[]]


def test_a_coroutine_can_await_all_that_can_be_called() -> None:
    called = {name for name in dir(Broker) if not name.startswith("_")} - {"aio"}
    assert called == {name for name in dir(AsyncBroker) if not name.startswith("_")}
