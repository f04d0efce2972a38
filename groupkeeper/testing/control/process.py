"""`groupkeeper serve --control`: a test broker in its own process, controlled over HTTP by tests in
any language.

The broker runs on a thread, as in Python tests. The control port is on the main thread, and stays
open while the broker is crashed and restarted. The `--http` port belongs to the broker and is
closed and opened with it.
"""

import asyncio
from dataclasses import replace

from groupkeeper.observe import logs
from groupkeeper.observe.http_server import HttpServer
from groupkeeper.observe.log_writer import Line
from groupkeeper.server.descriptors import raise_limit
from groupkeeper.server.http_port import HttpPort
from groupkeeper.server.main import WRONG_CALL, after_ready, exit_with, warn_of_open_ports
from groupkeeper.server.signals import at_signals
from groupkeeper.settings.options import Address, ServeOptions, format_address
from groupkeeper.storage.backup.note import NotRestored
from groupkeeper.storage.errors import StorageError
from groupkeeper.testing.bench import Bench
from groupkeeper.testing.control.http import PREFIX, Control
from groupkeeper.testing.control.parts import ServedBroker
from groupkeeper.testing.errors import BrokerDown, RequestFailed, WrongArgument
from groupkeeper.testing.security import BrokerSecurity

_log = logs.Logger("control")


def run(
    options: ServeOptions, control: Address, brokers: int = 1, as_version: str | None = None
) -> int:
    """Serve until SIGTERM or SIGINT; return the exit code. Errors are one line on stderr."""
    logs.configure()
    raise_limit()
    try:
        return asyncio.run(_serve(options, control, brokers, as_version))
    except (NotRestored, RequestFailed, WrongArgument) as error:
        return exit_with(str(error), WRONG_CALL)
    except (StorageError, OSError) as error:
        return exit_with(str(error))


async def _serve(
    options: ServeOptions, control: Address, brokers: int, as_version: str | None
) -> int:
    stopped = asyncio.Event()
    at_signals(stopped.set)
    bench = ServedBench(options, brokers, as_version)
    bench.start()
    api = Control(ServedBroker(bench))
    try:
        http = HttpServer({PREFIX: api.answer, "/": api.no_path}, names=())
        at = await http.start(control)
    except OSError:
        bench.stop()
        raise
    print(  # noqa: T201  # the ready line is a stable interface: see `server.main`
        f"groupkeeper ready kafka={bench.bootstrap_servers} http={bench.http_at} "
        f"control={format_address(at)} node={options.node_id} data={options.data_dir}",
        flush=True,
    )
    after_ready(options)
    await warn_of_open_ports(options)
    await stopped.wait()
    _log.info("stopping")
    await http.close()
    await api.close()
    await asyncio.to_thread(bench.stop)
    return 0


class ServedBench(Bench):
    """A test broker with the options of `groupkeeper serve`: it has an HTTP port and logs to
    standard error.
    """

    def __init__(self, options: ServeOptions, brokers: int, as_version: str | None) -> None:
        """Raises RequestFailed."""
        data = None if options.memory else options.data_dir
        security = BrokerSecurity(options.listeners)
        super().__init__(options.topics, options.settings, data, brokers, as_version, security)
        self._given = options
        self._http_at = options.http
        self._http: HttpPort | None = None

    @property
    def http_at(self) -> str:
        """The address of the HTTP port, or `off`."""
        return "off" if self._http_at is None else format_address(self._http_at)

    def options(self) -> ServeOptions:
        listeners = tuple(self.cluster.listeners)
        return replace(self._given, listeners=listeners, dev=True, settings=self._settings)

    def keep(self, line: Line) -> None:
        super().keep(line)
        logs.pass_on(line)

    def start(self) -> None:
        self._close()  # still open if a fault rule crashed the broker
        super().start()
        self.run(self._open)

    async def _open(self) -> None:
        await self.server.log_findings()
        if self._http_at is not None:
            options = self.options()
            self._http = HttpPort(self.server, options.hosts)
            self._http_at = await self._http.start(self._http_at, options.settings)

    def _close(self) -> None:
        http, self._http = self._http, None
        if http is not None:
            try:
                self.run(http.close)
            except BrokerDown:  # the port's tasks ended with the loop
                self._bury()

    def stop(self) -> None:
        self._close()
        super().stop()

    def crash(self) -> None:
        self._close()
        super().crash()
