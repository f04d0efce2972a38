"""The worker's side of the line protocol: one JSON object per line in, one per line out.

A worker is a process that holds one client library and does what its user would: a command names a
method of the worker (`do_<name>`), the rest of the object are its arguments. What happens without
being asked for, records and assignments, is told as events. Between commands the consumer, once
there is one, is polled without a pause, as the manual of every client asks for.

Needs no client library of its own; it runs with nothing on the path but one client.
"""

import json
import logging
import os
import queue
import sys
import threading
import time

POLL_MS = 100
NUMBER_DIGITS = 8
log = logging.getLogger("worker")


def tell(**event):
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


class Worker:
    """What all workers share: the loop, and telling records, assignments and failures."""

    polls = False

    def serve(self):
        commands = queue.Queue()
        threading.Thread(target=_read, args=(commands,), daemon=True).start()
        logging.basicConfig(
            level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s"
        )
        while True:
            try:
                command = commands.get(block=not self.polls)
            except queue.Empty:
                self._poll()
            else:
                self._answer(command)

    def _answer(self, command):
        number = command.pop("id")
        try:
            result = getattr(self, "do_" + command.pop("do"))(**command)
        except Exception as error:
            log.exception("the command failed: the test judges it")
            tell(answer=number, error=self.name_of(error), text=str(error))
        else:
            tell(answer=number, result=result)

    def _poll(self):
        try:
            records = self.poll()
        except Exception as error:
            log.exception("the poll failed: the test judges it")
            tell(event="failed", error=self.name_of(error), text=str(error))
            self.polls = False
        else:
            if records:
                tell(event="records", records=records)

    def do_start(
        self,
        topics,
        group,
        session_ms,
        heartbeat_ms,
        instance_id=None,
        auto_commit=False,
        more=None,
    ):
        """Begin to consume as a member of a group. `more`: settings under Kafka's names."""
        settings = {
            "group.id": group,
            "session.timeout.ms": session_ms,
            "heartbeat.interval.ms": heartbeat_ms,
            "enable.auto.commit": auto_commit,
            **(more or {}),
        }
        if instance_id is not None:
            settings["group.instance.id"] = instance_id
        if settings.get("group.protocol") == "consumer":  # the broker says how long these are
            del settings["session.timeout.ms"], settings["heartbeat.interval.ms"]
        self.start(topics, settings)
        self.polls = True

    def do_unsubscribe(self):
        self.polls = False  # some clients refuse to be polled now
        self.consumer.unsubscribe()

    def do_poll_again(self):
        self.polls = True

    def do_resubscribe(self, topics):
        self.do_subscribe(topics)
        self.polls = True

    def start(self, topics, settings):
        """Make a consumer with these settings, under Kafka's names, and subscribe it."""
        raise NotImplementedError

    def poll(self):
        """Poll the consumer once; the records as [topic, partition, offset, value]."""
        raise NotImplementedError

    def do_stall(self, seconds):
        """Poll nothing for that long, as somebody does who works on the last records."""
        time.sleep(seconds)

    def do_block(self, seconds):
        """Let the thread stand still that polls."""
        time.sleep(seconds)

    def do_tally(self, partitions, count, seconds):
        """Read partitions, without a group, until there are as many records as were numbered.

        Answers how many came, how many different numbers they have and their bytes; fewer than
        `count` if the time is up.
        """
        self.do_read(partitions)
        self.polls = False  # else every value is told as well
        deadline = time.monotonic() + seconds
        records = size = 0
        numbers = set()
        while records < count and time.monotonic() < deadline:
            for _, _, _, value in self.poll():
                records += 1
                size += len(value)
                numbers.add(int(value[:NUMBER_DIGITS]))
        return {"records": records, "different": len(numbers), "bytes": size}

    def name_of(self, error):
        """Kafka's name of the error in one spelling for all clients: FencedInstanceId."""
        return type(error).__name__.removesuffix("Error")

    def assigned(self, partitions):
        tell(event="assigned", partitions=pairs(partitions))

    def revoked(self, partitions):
        tell(event="revoked", partitions=pairs(partitions))


class PythonWorker(Worker):
    """A worker on kafka-python or aiokafka: `place` is their TopicPartition, and `run` gives the
    result of a call, which aiokafka has to await.
    """

    consumer = None
    connected = None  # the administration client, connected on first use

    def __init__(self, bootstrap):
        self.bootstrap = bootstrap

    def run(self, result):
        return result

    def fetch(self):
        """Poll the consumer once; records by partition."""
        raise NotImplementedError

    def poll(self):
        return [
            [one.topic, one.partition, one.offset, one.value.decode()]
            for batch in self.fetch().values()
            for one in batch
        ]

    def do_assignment(self):
        return pairs(self.consumer.assignment())

    def do_commit(self):
        self.run(self.consumer.commit())

    def do_committed(self, partitions):
        return [self.run(self.consumer.committed(self.place(*one))) for one in partitions]

    def do_seek(self, partition, offset):
        self.consumer.seek(self.place(*partition), offset)

    def do_position(self, partition):
        return self.run(self.consumer.position(self.place(*partition)))

    def do_ends(self, partition):
        one = self.place(*partition)
        ends = self.consumer.beginning_offsets([one]), self.consumer.end_offsets([one])
        return [self.run(each)[one] for each in ends]

    def do_offset_at(self, partition, timestamp_ms):
        one = self.place(*partition)
        found = self.run(self.consumer.offsets_for_times({one: timestamp_ms}))[one]
        return found and found.offset


def numbered(count, size):
    """Values of that many bytes each, which begin with a number of their own: see `do_tally`."""
    rest = b"x" * (size - NUMBER_DIGITS)
    return [b"%0*d" % (NUMBER_DIGITS, number) + rest for number in range(count)]


def underscored(settings):
    """Kafka's names of settings as those of arguments."""
    return {name.replace(".", "_"): value for name, value in settings.items()}


def pairs(partitions):
    return sorted([one.topic, one.partition] for one in partitions)


def until(condition, seconds=10.0):
    """Ask again and again until the answer is true: for what a client can only be asked."""
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not so within {seconds} s")
        time.sleep(0.02)
    return answer


def _read(commands):
    for line in sys.stdin:
        commands.put(json.loads(line))
    os._exit(0)  # whoever started this process is gone: neither leave nor commit
