"""``groupkeeper serve``: start the server, say that it is ready, run until told to stop.

The Kafka port opens first; what is expensive to import comes after it, or with its first use.
"""

import asyncio
import gc
import signal

from groupkeeper.observe import logs
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.observe.pages import pages
from groupkeeper.server.collector import keep_collections_short
from groupkeeper.server.descriptors import raise_limit
from groupkeeper.server.loop import count_failed_accepts, watched_loop
from groupkeeper.server.server import Server
from groupkeeper.settings.options import ServeOptions, format_address
from groupkeeper.storage.errors import StorageError
from groupkeeper.turns import Turns

_log = logs.Logger("server")


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code; what is wrong is one line on stderr."""
    logs.configure()
    raise_limit()
    keep_collections_short()
    try:
        server = Server(options)
        loop, watch = watched_loop()
        watch.turns, watch.iterations = server.turns, server.metrics.iterations
        count_failed_accepts(loop, server.metrics.connections)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(_serve(server, options))
    except (StorageError, OSError) as error:
        return _complain(str(error))


async def _serve(server: Server, options: ServeOptions) -> int:
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    await server.start()
    http: HttpServer | None = None
    http_at = "off"
    if options.http is not None:
        turns = Turns()  # its own: a health check does not queue up behind greedy Kafka clients
        http = HttpServer(pages(server.metrics, turns), turns)
        try:
            http_at = format_address(await http.start(options.http))
        except OSError:
            await server.stop()
            raise
    print(  # noqa: T201  # the ready line is the interface to whoever started us
        f"groupkeeper ready kafka={format_address(server.kafka)} http={http_at} "
        f"node={options.node_id} data={options.data_dir}",
        flush=True,
    )
    _after_ready(options)
    if http is not None:
        http.serving.add_done_callback(lambda _: gc.freeze())  # what was imported stays, too
    await server.introduce()
    await _warn_of_open_ports(options)
    server.failed.add_done_callback(lambda _: stopped.set())
    await stopped.wait()
    _log.info("stopping")
    if http is not None:
        await http.close()
    if server.failed.done():
        return _complain(f"the disk cannot be trusted any more: {server.failed.result()}")
    await server.stop()
    return 0


def _after_ready(options: ServeOptions) -> None:
    """What need not be done before clients are served."""
    for key in options.unused_keys:
        _log.info("setting that is of use to Kafka only", key=key)
    # What was made while starting lives as long as the process: it need not be looked at again.
    gc.freeze()


async def _warn_of_open_ports(options: ServeOptions) -> None:
    """One line for each port that other machines can connect to: nobody is asked who they are."""
    from groupkeeper.server.reach import is_reachable

    if await is_reachable(options.listen):
        _log.warning(
            "Kafka port without authentication: whoever reaches it can read and change everything",
            listen=format_address(options.listen),
        )
    if options.http is not None and await is_reachable(options.http):
        _log.warning(
            "HTTP port without authentication: whoever reaches it can read all that it shows",
            http=format_address(options.http),
        )


def _complain(message: str) -> int:
    logs.write_text(f"groupkeeper: {message}")  # for whoever started us, if they read it
    return 1
