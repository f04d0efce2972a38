"""`groupkeeper analyze --bootstrap-server`: fetches the logs of a cluster and analyses them.

The logs are copied over the wire into a temporary folder, laid out as on a broker.
"""

import base64
import re
import tempfile
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from groupkeeper.analytics.command.report import analyze, check_request
from groupkeeper.analytics.command.request import Request
from groupkeeper.analytics.errors import AnalyticsError, one_line
from groupkeeper.analytics.page import check_report
from groupkeeper.analytics.reading import files
from groupkeeper.analytics.reading.segments import EVENTS, OFFSETS
from groupkeeper.analytics.store.durable import DurableFiles
from groupkeeper.analytics.store.resume import read
from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.cluster import Cluster
from groupkeeper.cli.progress import progress
from groupkeeper.cli.why.show import remark
from groupkeeper.client import CallFailed
from groupkeeper.client.partitions import describe_topics
from groupkeeper.client.segment_copy import copy_partitions
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.placement import partition_of

if TYPE_CHECKING:
    from groupkeeper.client import Client
    from groupkeeper.client.groups import Partition

_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_RIGHT: Final = "this user may not read {}: it needs the READ permission on that topic"
_OTHER: Final = (
    "it was truncated or restored, or is from another cluster; analyze it again with --rebuild, or "
    "into another folder"
)


def analyze_cluster(cluster: Cluster, request: Request) -> int:
    """Do the work of `analytics.report.analyze`; exit code 1 if the cluster cannot be read."""
    try:
        check_request(request)
        if request.report:  # the copy may take long
            made = request.out if isinstance(request.out, Path) else request.csv
            check_report(request.report, made)
        starts = _starts(request)
        with tempfile.TemporaryDirectory(prefix="groupkeeper-analyze-") as place:
            failed = cluster.run(lambda client: _copy(client, request, starts, Path(place)))
            return failed or analyze([place], replace(request, origin=cluster.bootstrap))
    except AnalyticsError as error:
        remark(str(error))
        return error.exit_code
    except OSError as error:  # no temporary folder
        remark(one_line(error))
        return 1


def _starts(request: Request) -> "dict[Partition, int]":
    """Return the offset of the last batch of each partition in the existing tables. The analysis
    recognizes the log by that batch, and continues after it. Raises AnalyticsError.
    """
    if request.out is None or request.rebuild:
        return {}
    found = read(DurableFiles(files.place(str(request.out))))
    return {
        # The header of a batch begins with its offset.
        (topic, number): int(place.header[:16], 16) if place.header else place.next
        for topic, of in (found[0].places if found else {}).items()
        for number, place in of.items()
    }


async def _copy(
    client: "Client", request: Request, starts: "Mapping[Partition, int]", place: Path
) -> None:
    """Copy the logs. Raises CommandRefused and CallFailed."""
    groups = request.choice.groups
    wanted = await _partitions(client, OFFSETS, groups)
    if request.asks:
        wanted += await _partitions(client, EVENTS, groups)
    # The analysis itself reports missing topics, and partitions of other groups.
    topics = {topic for topic, _ in wanted}
    known = {each: offset for each, offset in starts.items() if each[0] in topics}
    begins = dict.fromkeys(wanted, 0) | known
    try:
        with progress() as told:
            await copy_partitions(client, begins, place, told, _tell_gone)
        _write_ids(await describe_topics(client), place)
    except CallFailed as failure:
        if failure.error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise CommandRefused(_RIGHT.format(failure.detail)) from None
        if failure.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            raise CommandRefused(f"{failure.detail}: {_OTHER}") from None
        raise
    except OSError as error:
        raise CommandRefused(
            f"cannot write to {place}: {error.strerror}; TMPDIR names another place"
        ) from error


async def _partitions(client: "Client", topic: str, groups: Collection[str]) -> "list[Partition]":
    """Return the partitions that can have records of the groups (if none are given: all). A missing
    event topic has no partitions. Raises CommandRefused.
    """
    [found] = await describe_topics(client, [topic])
    error, is_optional = ErrorCode(found.error_code), topic == EVENTS
    if error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and not is_optional:
        raise CommandRefused(
            f"this cluster has no topic {topic}: no group has joined or committed so far"
        )
    if error is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        if not is_optional:
            raise CommandRefused(_RIGHT.format(topic))
        remark(f"events are not read: {_RIGHT.format(topic)}, if the topic exists")
    elif error not in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
        raise CommandRefused(f"the topic {topic} cannot be read: {error.name}")
    count = len(found.partitions)
    if groups and count:
        return [(topic, number) for number in {partition_of(group, count) for group in groups}]
    return [(topic, number) for number in range(count)]


def _tell_gone(partition: str, offset: int) -> None:
    remark(f"{partition}: records before offset {offset} were deleted during the copy")


def _write_ids(topics: Collection[Any], place: Path) -> None:
    """Write the names of topics by id in a broker's layout: newer groups' records only have ids."""
    for each in topics:
        folder = place / f"{each.name}-0"
        if any(each.topic_id) and _NAME.fullmatch(each.name) and not folder.exists():
            folder.mkdir()
            text = base64.urlsafe_b64encode(each.topic_id).decode().rstrip("=")
            (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {text}\n")
