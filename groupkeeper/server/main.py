"""`groupkeeper serve`: starts the server, prints the ready line, runs until a signal stops it.

The Kafka port opens first; expensive modules are imported after it, or when they are first used.
"""

import asyncio
import gc
import socket
from contextlib import suppress
from functools import partial

from groupkeeper.observe import logs
from groupkeeper.server.collector import collect_old, keep_collections_short
from groupkeeper.server.descriptors import raise_limit
from groupkeeper.server.http_port import HttpPort
from groupkeeper.server.loop import WatchedSelector, count_failed_accepts, watched_loop
from groupkeeper.server.server import Server, World
from groupkeeper.server.signals import at_signals
from groupkeeper.server.stopping import keep_deadline
from groupkeeper.server.stops import report_stops
from groupkeeper.settings.options import Address, Listen, ServeOptions, format_address
from groupkeeper.settings.table import Settings, SettingsError
from groupkeeper.storage.backup.note import NotRestored
from groupkeeper.storage.errors import StorageError
from groupkeeper.topics.topics import wall_ms

WRONG_CALL = 2

_log = logs.Logger("server")


def run(options: ServeOptions) -> int:
    """Serve until SIGTERM or SIGINT. Returns the exit code; an error is one line on stderr."""
    logs.configure()
    raise_limit()
    keep_collections_short()
    try:
        server = Server(options, _world(options))
        loop, watch = watched_loop()
        watch.turns, watch.iterations = server.turns, server.metrics.iterations
        watch.last = collect_old
        count_failed_accepts(loop, server.metrics.connections)
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(_serve(server, options, watch))
    except (SettingsError, NotRestored) as error:
        return exit_with(str(error), WRONG_CALL)
    except (StorageError, OSError) as error:
        return exit_with(str(error))


def _world(options: ServeOptions) -> World | None:
    if not options.memory:
        return None
    from groupkeeper.storage.compaction.compaction import compact
    from groupkeeper.storage.files.memory import MemoryFiles

    files = MemoryFiles(wall_ms)
    return World(files=files, compact=partial(compact, files))


async def _serve(server: Server, options: ServeOptions, selector: WatchedSelector) -> int:
    stopped = asyncio.Event()
    at_signals(stopped.set)
    await server.start()
    report_stops(selector, server)
    http: HttpPort | None = None
    http_at = "off"
    try:
        if options.topics:
            from groupkeeper.server.first_topics import create_topics

            await create_topics(server, options.topics)
        if options.http is not None:
            http = HttpPort(server, options.hosts)
            http_at = format_address(await http.start(options.http, options.settings))
    except (OSError, SettingsError):
        watch = keep_deadline(server.stage)
        with suppress(StorageError):  # in the log, too; why it cannot start matters more
            await server.stop()
        watch.over.set()
        raise
    print(  # noqa: T201  # the ready line is an interface for programs that start this one
        f"groupkeeper ready kafka={_kafka(server)} http={http_at} "
        f"node={options.node_id} data={options.data_dir}",
        flush=True,
    )
    after_ready(options)
    if http is not None:
        http.freeze_when_serving()
    await server.log_findings()
    await warn_of_open_ports(options)
    server.failed.add_done_callback(lambda _: stopped.set())
    await stopped.wait()
    _log.info("stopping")
    watch = keep_deadline(server.stage)
    if http is not None:
        await http.close()
    if server.failed.done():
        return exit_with(f"the disk can no longer be trusted: {server.failed.result()}")
    await server.stop()
    watch.exit_code = 0
    return 0


def _kafka(server: Server) -> str:
    """Return the bound address; several with the names of their listeners."""
    if len(server.bound) == 1:
        return format_address(*server.bound.values())
    return ",".join(f"{name}://{format_address(at)}" for name, at in server.bound.items())


def after_ready(options: ServeOptions) -> None:
    """Do everything that can wait until clients are served."""
    for key in options.unused_keys:
        _log.info("setting has no effect", key=key)
    # Objects made while starting live as long as the process.
    gc.freeze()


async def warn_of_open_ports(options: ServeOptions) -> None:
    """Log each port that other machines can connect to, unless clients are authenticated."""
    for each in options.listeners:
        if not _authenticates(each, options.settings) and await is_reachable(each.bind):
            _log.warning(
                "Kafka port without authentication: any client can read and change all data",
                listen=format_address(each.bind),
            )
    has_tokens = options.settings.http_tokens_file is not None
    if options.http is not None and not has_tokens and await is_reachable(options.http):
        may = "change groups" if options.settings.http_api_write else "read its pages"
        _log.warning(
            f"HTTP port without authentication: any client can {may}",
            http=format_address(options.http),
        )


def _authenticates(listen: Listen, settings: Settings) -> bool:
    """Return whether clients of a listener have to say who they are."""
    if listen.protocol.has_sasl:
        return True
    needed = settings.for_listener(listen.name).ssl_client_auth == "required"
    return listen.protocol.is_tls and needed


async def is_reachable(address: Address) -> bool:
    """Return whether other machines can connect to a port that is bound to this address.

    That is, whether asyncio binds an address other than loopback for it. A host name is resolved as
    by asyncio, which binds every address found. An unresolvable name counts as reachable.
    """
    host, port = address
    try:
        return not _is_loopback(host)
    except ValueError:
        pass  # a name
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError:
        return True
    return not all(_is_loopback(str(info[4][0])) for info in found)


def _is_loopback(host: str) -> bool:
    """Return whether an address is loopback. Raises ValueError if `host` is a name."""
    from ipaddress import IPv4Address, ip_address

    ip = ip_address(host)
    mapped: IPv4Address | None = getattr(ip, "ipv4_mapped", None)
    return (mapped or ip).is_loopback


def exit_with(message: str, code: int = 1) -> int:
    """Write one line to stderr; return the exit code."""
    logs.write_text(f"groupkeeper: {message}")  # queued: stderr may not be read
    return code
