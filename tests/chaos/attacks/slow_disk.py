"""A disk that stands: writes and reads of what is not the groups' take seconds."""

import threading
import time
from urllib.request import urlopen

from tests.chaos.attacks.support import outcome, produce, store, topics
from tests.chaos.preload import Slow
from tests.chaos.target import Attack, Limits, Steps, Target, check
from tests.chaos.wire import Client, Stream, dial, pump
from tests.support.requests import records_request
from tests.support.wire import frame
from tests.topics.scene import batch

FAMILY = "disk"
WRITES, READS = "write,pwrite,ftruncate", "read,pread"
SLOW = (
    Slow(WRITES, "slow-", 1_500),
    Slow(READS, "slow-", 1_000),
    Slow(READS, "__consumer_offsets", 1_000),
    Slow(READS, "__group_events", 1_000),
)
SECONDS = 8.0


def slow_topic_disk(target: Target) -> Steps:
    """Producers and consumers of a topic whose files are slow, and readers of internal topics."""
    topics(target, ["slow"])
    store(target, "slow", [batch("v" * 1_000)] * 3)
    folder = target.data_dir.parent
    yield
    (folder / "slow").touch()
    until = time.monotonic() + SECONDS
    streams = [
        Stream(dial(target.kafka), frame(7, produce("slow", batch("v"))) * 2, 2),
        Stream(dial(target.kafka), frame(7, produce("slow", batch("w"))) * 2, 2),
        Stream(dial(target.kafka), frame(11, records_request("slow", 0)) * 3, 3),
        *(
            Stream(dial(target.kafka), frame(11, records_request("__consumer_offsets", n)), 1)
            for n in (0, 1)
        ),
    ]
    asking = threading.Thread(target=_ask_why, args=(target, until))
    asking.start()
    all_answered = pump(streams, 4 * SECONDS)
    asking.join()
    check(all_answered, "a producer or a consumer of the slow topic was not answered")
    calls = (folder / "calls").read_text().splitlines()
    seen = sorted({call for call in calls if call.startswith(f"{target.pid} ")})
    check(not seen, f"the event loop made file calls: {', '.join(seen[:3])}")
    client = Client(target.kafka)
    (folder / "slow").unlink()
    answer = client.call(7, produce("slow", batch("last")))
    [stored] = answer.responses[0].partition_responses
    check(stored.base_offset == 7, f"a record of the slow topic is missing: {stored}")
    return outcome(streams[0])


def _ask_why(target: Target, until: float) -> None:
    host, port = target.http
    while time.monotonic() < until:
        with urlopen(f"http://{host}:{port}/api/v1/groups/canary/events", timeout=30) as answer:
            answer.read()


ATTACKS = [
    Attack(
        "slow-topic-disk",
        FAMILY,
        "writes to a topic's files take 1.5 s, reads of the ends of logs 1 s",
        slow_topic_disk,
        limits=Limits(stall_ms=100.0),
        slow_disk=SLOW,
    )
]
