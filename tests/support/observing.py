"""`groupkeeper observe` as a process: found ready, asked over HTTP, ended by its id."""

import json
import os
import re
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.process import PROGRAM, READY_S, ROOT

READY = re.compile(r"groupkeeper observer ready http=(127\.0\.0\.1:\d+) cluster=(\S+) data=(.+)\n")


class Observing:
    """A process; `http` is the address of its port, `log` the file of its standard error.

    `token` is sent with each request; with `tls` the port speaks TLS.
    """

    def __init__(self, popen: "subprocess.Popen[str]", http: str, log: Path) -> None:
        self.popen, self.http, self.log = popen, http, log
        self.token: str | None = None
        self.tls: ssl.SSLContext | None = None

    def get(self, path: str) -> Any:
        """The JSON of an answer. Raises HTTPError, which has its status as `code`."""
        return json.loads(self.text(path))

    def text(self, path: str) -> str:
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        scheme = "http" if self.tls is None else "https"
        asked = urllib.request.Request(f"{scheme}://{self.http}{path}", headers=headers)
        with urllib.request.urlopen(asked, timeout=READY_S, context=self.tls) as answer:
            return str(answer.read().decode())

    def status(self, path: str) -> int:
        """The status of an answer."""
        try:
            self.text(path)
        except urllib.error.HTTPError as refused:
            return refused.code
        return 200

    def asked(self) -> None:
        """Wait until the cluster was asked for groups and for ends of logs."""
        end = time.monotonic() + READY_S
        names = "groupkeeper_observer_asks_total", "groupkeeper_observer_lag_asks_total"
        while any(f"{each} 0.0" in self.text("/metrics") for each in names):
            assert time.monotonic() < end, "nothing was asked"
            time.sleep(0.1)

    def caught_up(self) -> None:
        """Wait for `/readyz`."""
        end = time.monotonic() + READY_S
        while True:
            try:
                self.get("/readyz")
                return
            except OSError:
                assert time.monotonic() < end, f"it did not become ready: {self.log.read_text()}"
                time.sleep(0.1)


@contextmanager
def observing(bootstrap: str, data: Path, *more: str) -> Iterator[Observing]:
    """Run an observer whose log is beside `data`; `more` are further options."""
    log = data.parent / "observer.log"
    words = ["--bootstrap-server", bootstrap, "--data", str(data), "--http", "127.0.0.1:0", *more]
    with (
        log.open("ab") as errors,
        subprocess.Popen(
            [*PROGRAM, "observe", *words],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            text=True,
        ) as popen,
    ):
        try:
            assert popen.stdout is not None
            line = popen.stdout.readline()
            found = READY.fullmatch(line)
            assert found is not None, line + log.read_text()
            assert found[3] == str(data)
            yield Observing(popen, found[1], log)
        finally:
            popen.kill()
