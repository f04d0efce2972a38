"""Uses an installed Groupkeeper with the libraries that are beside it, and prints their versions.

The suite `ranges` runs it, in environments of its own.
"""

import asyncio
import subprocess
import sys
import urllib.error
import urllib.request
from importlib.metadata import version

from aiokafka import AIOKafkaConsumer

from groupkeeper.testing import Broker

COMMAND = (sys.executable, "-m", "groupkeeper")
WAIT_S = 60


async def consume() -> None:
    """A test as a user of aiokafka writes it, and commands that ask its broker."""
    with Broker(topics={"orders": 1}) as broker:
        await broker.aio.produce("orders", "first")
        consumer = AIOKafkaConsumer(
            "orders",
            bootstrap_servers=broker.bootstrap_servers,
            group_id="billing",
            auto_offset_reset="earliest",
        )
        await consumer.start()
        try:
            record = await asyncio.wait_for(consumer.getone(), WAIT_S)
            assert record.value == b"first"
            await consumer.commit()
        finally:
            await consumer.stop()
        at = ("--bootstrap-server", broker.bootstrap_servers)
        for words, named in (
            (("groups", "list"), "billing"),
            (("groups", "describe", "--group", "billing"), "orders"),
        ):
            told = await asyncio.to_thread(run, *words, *at)
            assert named in told, told


def run(*arguments: str) -> str:
    done = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def serve() -> None:
    """The pages are there, and no change for a page of another origin is made."""
    options = ("--dev", "--memory", "--http", "127.0.0.1:0", "--set", "http.api.write=true")
    with subprocess.Popen(
        [*COMMAND, "serve", *options, "--listen", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            ready = dict(word.split("=", 1) for word in server.stdout.readline().split()[2:])
            http = f"http://{ready['http'].removeprefix('http://').rstrip('/')}"
            for page in ("", "readyz", "metrics", "api/v1/groups"):
                assert status(f"{http}/{page}") == 200, page
            change = f"{http}/api/v1/groups/billing/remove-members"
            assert status(change, b"{}", Origin="http://elsewhere.example") == 403
        finally:
            server.terminate()
            assert server.wait(WAIT_S) == 0


def status(url: str, body: bytes | None = None, **headers: str) -> int:
    headers |= {"Content-Type": "application/json"} if body else {}
    try:
        request = urllib.request.Request(url, body, headers)
        with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


if __name__ == "__main__":
    asyncio.run(consume())
    serve()
    print(f"aiokafka {version('aiokafka')}, h11 {version('h11')}")
