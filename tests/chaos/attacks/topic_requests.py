"""Well-formed requests about topics and records that cost the server more than the client."""

from groupkeeper.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from groupkeeper.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from groupkeeper.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from tests.chaos.attacks.support import (
    WIDE,
    deliver,
    each_of,
    names,
    outcome,
    produce,
    promising,
    store,
    topics,
)
from tests.chaos.target import BUDGET_MIB, Attack, Limits, Steps, Target
from tests.chaos.wire import Stream, dial, pump
from tests.support.requests import create_request, list_request
from tests.support.wire import frame
from tests.topics.scene import NOW, batch

FAMILY = "topic requests"
TOPIC = 2  # resource type
LATEST_RECORD = -3
"""ListOffsets: the offset of the record with the largest timestamp (KIP-734)."""
LATER = NOW + 10**9
HANG_UP_SECONDS = 10.0
PARTITIONS = Limits(growth_mib=224, kept_mib=192)
"""For what looks into 99,000 partitions: each is known from then on, with 1.5 KB."""


def metadata_all(target: Target) -> Steps:
    topics(target, names("t", 1_000), 10)
    data = frame(1, MetadataRequest(topics=None)) * 100
    yield
    return outcome(deliver(target, data, 100))


def metadata_all_deep(target: Target) -> Steps:
    topics(target, names("t", 1_000), 10)
    data = frame(1, MetadataRequest(topics=None))
    yield
    stream = Stream(dial(target.kafka), data * (250_000 // len(data)), 250_000 // len(data))
    pump([stream], HANG_UP_SECONDS)
    stream.socket.close()
    return f"{stream.answers} of {stream.expected} in {HANG_UP_SECONDS:.0f} s"


def metadata_names(target: Target) -> Steps:
    """Names that cannot be topics, so that none is created."""
    wanted = [MetadataRequestTopic(name=f"t/{at}") for at in range(50_000)]
    data = frame(4, MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
    yield
    return each_of(target, of_50k=data)


def create_refused(target: Target) -> Steps:
    data = frame(4, create_request(*names("t/", 50_000)))
    yield
    return each_of(target, of_50k=data)


def create_many(target: Target) -> Steps:
    data = frame(4, create_request(*names("t", 4_900)))
    yield
    return each_of(target, of_4900=data)


def describe_configs(target: Target) -> Steps:
    topics(target, names("t", 1_000))
    thousand = [
        DescribeConfigsResource(resource_type=TOPIC, resource_name=name)
        for name in names("t", 1_000)
    ]
    repeated = [DescribeConfigsResource(resource_type=TOPIC, resource_name="t1")] * 50_000
    requests = [
        frame(
            3,
            DescribeConfigsRequest(
                resources=resources, include_synonyms=True, include_documentation=True
            ),
        )
        for resources in (thousand, repeated)
    ]
    yield
    return each_of(target, of_1000=requests[0], of_one_50k_times=requests[1])


def alter_configs(target: Target) -> Steps:
    change = AlterableConfig(name="retention.ms", config_operation=0, value="1")
    resources = [
        AlterConfigsResource(resource_type=TOPIC, resource_name=name, configs=[change])
        for name in names("t", 50_000)
    ]
    data = frame(0, IncrementalAlterConfigsRequest(resources=resources))
    yield
    return each_of(target, of_50k=data)


def leader_epoch(target: Target) -> Steps:
    topics(target, names("t", 10), WIDE)
    asked = [
        OffsetForLeaderTopic(
            topic=name,
            partitions=[
                OffsetForLeaderPartition(partition=at, current_leader_epoch=-1, leader_epoch=0)
                for at in range(WIDE)
            ],
        )
        for name in names("t", 10)
    ]
    data = frame(3, OffsetForLeaderEpochRequest(replica_id=-1, topics=asked))
    yield
    return each_of(target, of_99k=data)


def fetch_many(target: Target) -> Steps:
    topics(target, names("t", 10), WIDE)

    def fetching(count: int) -> bytes:
        asked = [
            FetchTopic(
                topic=f"t{at}",
                partitions=[
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
                    for index in range(min(WIDE, count - at * WIDE))
                ],
            )
            for at in range(-(-count // WIDE))
        ]
        request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=asked)
        return frame(11, request)

    large, fitting = fetching(10 * WIDE), fetching(60_000)
    yield
    return each_of(target, of_99k=large, of_60k=fitting)


def _at(name: str, timestamp: int, times: int = 1) -> bytes:
    request = list_request(name, 0, timestamp)
    request.topics *= times
    return frame(7, request)


def list_offsets_promise(target: Target) -> Steps:
    """Batches whose header promises a later record than they have: all are looked through."""
    topics(target, ["t"])
    made = promising(batch(*[""] * 200_000, compression="zstd"), LATER)
    store(target, "t", [made] * 3)
    yield
    return each_of(target, largest=_at("t", LATEST_RECORD), by_time=_at("t", LATER - 1))


def _bombs() -> list[bytes]:
    """Small batches that unfold to 60 MB each, and promise what they do not have."""
    made = batch("\0" * 60_000_000, compression="zstd")
    return [promising(made, LATER)] * 21


def list_offsets_bombs(target: Target) -> Steps:
    topics(target, ["t"])
    store(target, "t", _bombs())
    yield
    return each_of(
        target,
        by_time=_at("t", LATER - 1),
        largest=_at("t", LATEST_RECORD),
        often=_at("t", LATER - 1, 20),
    )


def produce_bombs(target: Target) -> Steps:
    topics(target, ["t"])
    data = b"".join(frame(7, produce("t", bomb)) for bomb in _bombs())
    yield
    return outcome(deliver(target, data, 21))


ATTACKS = (
    Attack("metadata-all", FAMILY, "100 pipelined Metadata of 1,000 topics x 10", metadata_all),
    Attack(
        "metadata-all-deep",
        FAMILY,
        "as many of these as fit into 250 KB; the client gives up after 10 s",
        metadata_all_deep,
    ),
    Attack("metadata-names", FAMILY, "Metadata of 50,000 names", metadata_names),
    Attack("create-refused", FAMILY, "CreateTopics of 50,000 that are refused", create_refused),
    Attack("create-many", FAMILY, "CreateTopics of 4,900", create_many),
    Attack(
        "describe-configs",
        FAMILY,
        "DescribeConfigs of 1,000 topics, and of one 50,000 times",
        describe_configs,
        limits=Limits(growth_mib=BUDGET_MIB + 64),
    ),
    Attack("alter-configs", FAMILY, "IncrementalAlterConfigs of 50,000 topics", alter_configs),
    Attack(
        "leader-epoch",
        FAMILY,
        "OffsetForLeaderEpoch of 99,000 partitions",
        leader_epoch,
        limits=PARTITIONS,
    ),
    Attack(
        "fetch-many", FAMILY, "Fetch of 99,000 and 60,000 partitions", fetch_many, limits=PARTITIONS
    ),
    Attack(
        "list-offsets-promise",
        FAMILY,
        "ListOffsets by time over batches that promise a later record",
        list_offsets_promise,
    ),
    Attack(
        "list-offsets-bombs",
        FAMILY,
        "ListOffsets by time over 21 batches that unfold to 60 MB each",
        list_offsets_bombs,
        limits=Limits(growth_mib=192),
    ),
    Attack("produce-bombs", FAMILY, "Produce of batches that unfold to 60 MB", produce_bombs),
)
