"""The events that a server has stored, as readers find them."""

from collections.abc import Iterator
from pathlib import Path

from groupkeeper.protocol.group_events import TOPIC, Event, decode
from groupkeeper.protocol.record_batch import decode_records, iter_batches
from groupkeeper.storage.log.log import Log
from tests.support.served import Served


def events_in(log: Log | None) -> Iterator[Event]:
    """All events of a log; none if it is not open."""
    for piece in log.batches(log.start_offset) if log is not None else ():
        for header in iter_batches(piece):
            for record in decode_records(piece, header):
                if record.value is None:
                    continue
                event = decode(record.key, record.value)
                assert record.timestamp_ms == event.at_ms
                yield event


def events_on_disk(data: Path) -> dict[int, list[Event]]:
    """The events in the data directory of a process that was stopped, by partition."""
    found: dict[int, list[Event]] = {}
    for file in sorted(data.glob(f"{TOPIC}-*/*.log")):
        chunk = file.read_bytes()
        events = found.setdefault(int(file.parent.name.rpartition("-")[2]), [])
        for header in iter_batches(chunk):
            records = decode_records(chunk, header)
            events += [decode(each.key, each.value or b"") for each in records]
    return found


def stored(served: Served, group_id: str = "g") -> list[Event]:
    """The events of the group's partition, after all that waits was written; in order."""
    served.advance(0.3)
    served.run(served.server._writer.call(served.server.store.catch_up))
    index = served.driver(group_id).index
    events = list(events_in(served.server.event_logs.log_of(index)))
    places = [(event.epoch, event.seq) for event in events]
    assert places == sorted(set(places)), "their order is that of the log"
    return events


def types(served: Served, group_id: str = "g") -> list[str]:
    return [event.type for event in stored(served, group_id)]


def of_type(served: Served, type_: str, group_id: str = "g") -> list[Event]:
    return [event for event in stored(served, group_id) if event.type == type_]


def counts_of_dropped(served: Served) -> tuple[int, int]:
    """How many events were dropped: by what is stored, and by the metrics."""
    told = sum(event.fields["count"] for event in of_type(served, "events_dropped"))
    counts = served.server.metrics.counts
    return told, sum(n for (name, *_), n in counts.items() if name == "events_dropped")
