"""`groupkeeper observe`: runs an observer, prints the ready line, stops at a signal."""

import asyncio
import sys
from collections.abc import Callable
from typing import Final

from groupkeeper.client import Client
from groupkeeper.observe import logs
from groupkeeper.protocol.messages.metadata import MetadataRequest
from groupkeeper.server.collector import collect_old, keep_collections_short
from groupkeeper.server.http_port import HttpPort
from groupkeeper.server.loop import watched_loop
from groupkeeper.server.main import WRONG_CALL, after_ready, exit_with, warn_of_open_ports
from groupkeeper.server.signals import at_signals
from groupkeeper.server.stopping import StopStage, keep_deadline
from groupkeeper.settings.options import format_address
from groupkeeper.settings.table import SettingsError
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.names import GROUP_TOPIC
from groupkeeper.watch.observer import Observer
from groupkeeper.watch.options import ObserveOptions
from groupkeeper.watch.report import known_since_ms
from groupkeeper.watch.topic import NoRight, TopicChanged
from groupkeeper.watch.waiting import WaitingPort, wait_for_topic

SWITCH_S: Final = 0.001
"""Time after which the folding thread lets the event loop run, in seconds."""
SHOW_S: Final = 0.2
"""Interval at which the progress is shown on a terminal."""

_log = logs.Logger("observer")


class ObserverProcess:
    """Sets up the process, once; its event loop is measured."""

    def __init__(self) -> None:
        logs.configure()
        keep_collections_short()
        sys.setswitchinterval(SWITCH_S)
        self.loop, self.selector = watched_loop()
        self.selector.last = collect_old


async def observe(
    client: Client, options: ObserveOptions, process: ObserverProcess, show: Callable[[int], None]
) -> int:
    """Observe until SIGTERM or SIGINT. Returns the exit code. Raises CallFailed. `show` is called
    with the number of records that are left to read until none are.
    """
    stopped = asyncio.Event()
    at_signals(stopped.set)
    try:
        starting = asyncio.ensure_future(_started(client, options))
        waiting = asyncio.ensure_future(stopped.wait())
        await asyncio.wait((starting, waiting), return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
            return 0
        waiting.cancel()
        observer, http = starting.result()
        process.selector.iterations = observer.metrics.iterations
        return await _run(observer, http, stopped, show)
    except SettingsError as problem:
        return exit_with(str(problem), WRONG_CALL)
    except (NoRight, TopicChanged, StorageError, OSError) as problem:
        return exit_with(str(problem))


async def _started(client: Client, options: ObserveOptions) -> tuple[Observer, HttpPort]:
    waiting = WaitingPort(options.http, options.settings)
    try:
        seen = await wait_for_topic(client, GROUP_TOPIC, waiting.open)
    finally:
        await waiting.close()
    cluster = (await client.call(MetadataRequest(topics=[]))).cluster_id or "unknown"
    observer = Observer(client, seen, cluster, options)
    await observer.start()
    http = HttpPort(observer, observer.hosts)
    try:
        bound = await http.start(waiting.address, observer.settings)
    except (OSError, SettingsError):
        await observer.close()
        raise
    print(  # noqa: T201  # the ready line is an interface for programs that start this one
        f"groupkeeper observer ready http={format_address(bound)} cluster={cluster} "
        f"data={options.data_dir}",
        flush=True,
    )
    after_ready(observer.options)
    await warn_of_open_ports(observer.options)
    return observer, http


async def _run(
    observer: Observer, http: HttpPort, stopped: asyncio.Event, show: Callable[[int], None]
) -> int:
    running = asyncio.create_task(observer.run())
    waiting = asyncio.create_task(stopped.wait())
    progress = asyncio.create_task(_show(observer, show))
    await asyncio.wait((running, waiting), return_when=asyncio.FIRST_COMPLETED)
    watch = keep_deadline(StopStage("the last requests"))
    failure = running.exception() if running.done() else None
    for each in (running, waiting, progress):
        each.cancel()
    await asyncio.gather(running, waiting, progress, return_exceptions=True)
    await http.close()
    if failure is None:
        _log.info("stopping")
        await observer.stop()
        watch.exit_code = 0
        return 0
    if isinstance(failure, TopicChanged | NoRight):
        await observer.stop()
    raise failure


async def _show(observer: Observer, show: Callable[[int], None]) -> None:
    """Show what is left to read, until all partitions were read to their ends once."""
    groups = observer.groups
    while not groups.is_ready:
        show(sum(max(0, each.left) for each in groups.partitions if not each.is_ready))
        await asyncio.sleep(SHOW_S)
    show(0)
    count = sum(len(each.group_ids()) for each in groups)
    since_ms = known_since_ms(observer.folds)
    about = {"groups": count} | ({} if since_ms is None else {"causes_known_since_ms": since_ms})
    _log.info("all partitions were read to their ends", **about)
