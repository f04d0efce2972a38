"""State without end: groups, members, topics, partitions, waiting requests, configurations."""

import time

from groupkeeper.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from groupkeeper.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.chaos.attacks.support import deliver, names, outcome, produce, topics
from tests.chaos.target import BUDGET_MIB, MIB, Attack, Limits, Steps, Target, check
from tests.chaos.wire import ATTACKER, Client, Stream, ask_all, dial, pump
from tests.support.requests import create_request, join_request, records_request, sync_request
from tests.support.wire import frame
from tests.topics.scene import batch

FAMILY = "exhaustion"
TOPIC = 2  # resource type


def groups_joined(target: Target) -> Steps:
    data = b"".join(frame(4, join_request(group)) for group in names("g", 100_000))
    yield
    return outcome(deliver(target, data, 100_000))


def pending_ids(target: Target) -> Steps:
    request = join_request("pending", session_timeout_ms=1_800_000)
    data = frame(4, request, client_id="c" * 32_000)
    yield
    return outcome(deliver(target, data * 8_000, 8_000))


def _ghosts(group_id: str, count: int, static: bool) -> list[bytes]:
    """JoinGroup of so many members, each with a session of three seconds."""
    frames = []
    for at in range(count):
        request = join_request(group_id, session_timeout_ms=3_000, rebalance_timeout_ms=3_000)
        request.group_instance_id = f"i{at}" if static else None
        frames.append(frame(5 if static else 3, request))
    return frames


def ghosts(target: Target) -> Steps:
    """They join, are answered when the phase is over, and are never heard of again."""
    parts = [_ghosts("dynamic", 5_000, False), _ghosts("static", 5_000, True)]
    yield
    for frames in parts:
        streams = [Stream(dial(target.kafka), data, 1) for data in frames]
        check(pump(streams, 30.0), "not all joined")
        for stream in streams:
            stream.socket.close()
    time.sleep(5.0)
    return "2 x 5,000 members"


def sessions_together(target: Target) -> Steps:
    """10,000 groups of one member; all sessions end at the same time."""
    static = [join_request(group, session_timeout_ms=8_000) for group in names("g", 10_000)]
    for at, request in enumerate(static):
        request.group_instance_id = f"i{at}"
    yield
    answered = ask_all(target.kafka, [frame(5, each) for each in static], 50, 30.0)
    time.sleep(12.0)
    return f"{answered} joined"


def waiting_fetches(target: Target) -> Steps:
    topics(target, ["t"])
    request = records_request("t", 0)
    request.max_wait_ms, request.min_bytes = 60_000, 1
    streams = [Stream(dial(target.kafka), frame(11, request), 1) for _ in range(1_000)]
    pump(streams, 2.0)
    yield
    client = Client(target.kafka)
    client.call(7, produce("t", batch("v" * 100_000)))
    check(pump(streams, 20.0), "not all fetches were answered")
    return outcome(streams[0])


def auto_create(target: Target) -> Steps:
    """30,000 topics by asking for them, then everything that lists them."""
    client = Client(target.kafka)
    yield
    created = 0
    for at in range(3):
        wanted = [MetadataRequestTopic(name=f"auto-{at}-{name}") for name in range(10_000)]
        answer = client.call(4, MetadataRequest(topics=wanted, allow_auto_topic_creation=True))
        created += sum(each.error_code == 0 for each in answer.topics)
    for _ in range(5):
        client.call(4, MetadataRequest(topics=None))
    return f"{created} topics"


def million_partitions(target: Target) -> Steps:
    client = Client(target.kafka)
    yield
    answer = client.call(4, create_request("t", partitions=1_000_000))
    check(answer.topics[0].error_code != 0, "created")
    return f"error {answer.topics[0].error_code}"


def produce_2000(target: Target) -> Steps:
    topics(target, ["t"], 2_000)
    client = Client(target.kafka)
    yield
    errors: dict[int, int] = {}
    for _ in range(2):
        answer = client.call(7, produce("t", batch("v"), 2_000))
        for each in answer.responses[0].partition_responses:
            errors[each.error_code] = errors.get(each.error_code, 0) + 1
    try:
        Client(target.kafka, ATTACKER, 5.0).call(1, MetadataRequest(topics=None))
    except OSError:
        check(False, "no new client comes in")
    check(set(errors) == {0}, f"error codes and partitions: {errors}")
    return "all 2,000, twice"


def config_toggles(target: Target) -> Steps:
    topics(target, ["t"])

    def altering(value: str) -> bytes:
        change = AlterableConfig(name="retention.ms", config_operation=0, value=value)
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name="t", configs=[change])
        return frame(0, IncrementalAlterConfigsRequest(resources=[resource]))

    data = (altering("1000000") + altering("2000000")) * 2_500

    def kept() -> float:
        """MiB in the catalog's files."""
        return (
            sum(
                each.stat().st_size
                for each in target.data_dir.rglob("*")
                if each.is_file() and "catalog" in str(each)
            )
            / MIB
        )

    before = kept()
    yield
    answered = outcome(deliver(target, data, 5_000))
    return f"5,000 changes {answered}, catalog +{kept() - before:.2f} MiB"


def groups_settled(target: Target) -> Steps:
    """Groups that had a member each, which falls silent."""
    yield
    client = Client(target.kafka)
    for group in names("g", 5_000):
        joined = client.call(3, join_request(group, session_timeout_ms=6_000))
        if joined.error_code == 0:
            who, generation = joined.member_id, joined.generation_id
            client.call(3, sync_request(who, generation, group, {who: b""}))
    time.sleep(8.0)
    return "5,000 groups"


ATTACKS = (
    Attack(
        "groups-joined",
        FAMILY,
        "100,000 groups by JoinGroup without another word",
        groups_joined,
        limits=Limits(
            growth_mib=192, kept_mib=192, log_lines=1_500
        ),  # 1.25 KB each, until the sessions end
    ),
    Attack(
        "pending-ids",
        FAMILY,
        "8,000 member ids asked for with a client id of 32 KB",
        pending_ids,
        limits=Limits(growth_mib=BUDGET_MIB, kept_mib=64),
    ),
    Attack(
        "ghosts",
        FAMILY,
        "5,000 members of one group, dynamic and static, that fall silent",
        ghosts,
        # The end of a join phase is one decision: up to 60 us a member.
        limits=Limits(stall_ms=350, growth_mib=128, kept_mib=64, log_lines=1_500),
        settings={"group.initial.rebalance.delay.ms": "3000"},
    ),
    Attack(
        "sessions-together",
        FAMILY,
        "10,000 groups whose sessions end at the same time",
        sessions_together,
        limits=Limits(growth_mib=96, kept_mib=64, log_lines=1_500),
    ),
    Attack(
        "waiting-fetches",
        FAMILY,
        "1,000 Fetches wait, a record of 100 KB comes",
        waiting_fetches,
        limits=Limits(growth_mib=BUDGET_MIB + 64),
    ),
    Attack(
        "auto-create",
        FAMILY,
        "30,000 topics by asking for their metadata, then listing them",
        auto_create,
        limits=Limits(growth_mib=96, kept_mib=96),
    ),
    Attack("million-partitions", FAMILY, "one topic of 1,000,000 partitions", million_partitions),
    Attack(
        "produce-2000",
        FAMILY,
        "produce to 2,000 partitions with 1,024 file descriptors",
        produce_2000,
        descriptors=1_024,
    ),
    Attack("config-toggles", FAMILY, "5,000 changes of a configuration", config_toggles),
    Attack(
        "groups-settled",
        FAMILY,
        "5,000 groups joined and settled one after another, then silent",
        groups_settled,
        limits=Limits(log_lines=1_500),
    ),
)
