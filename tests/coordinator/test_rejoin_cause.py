"""The cause of a rebalance that a rejoin starts: what differs, and what the client says."""

from struct import pack
from typing import Any

import pytest

from groupkeeper.coordinator.rejoin_cause import what_changed
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol
from tests.support.scene import RANGE_RR, Scene, topics

SUBSCRIPTION, MEMBER = CauseCode.SUBSCRIPTION_CHANGED, CauseCode.MEMBER_REJOINED
METADATA, LOADED = CauseCode.METADATA_CHANGED, CauseCode.REJOINED_AFTER_LOAD
LEADER = CauseCode.LEADER_REJOINED
BASE = {"range": topics("t"), "sticky": topics("t")}


def protocols(of: dict[str, bytes]) -> list[JoinGroupRequestProtocol]:
    return [JoinGroupRequestProtocol(name=name, metadata=data) for name, data in of.items()]


@pytest.mark.parametrize(
    ("after", "code"),
    [
        (BASE | {"range": topics("t", owned=1)}, MEMBER),
        ({name: topics("t", owned=2) for name in BASE}, MEMBER),
        (BASE | {"range": topics("t", "u")}, SUBSCRIPTION),
        ({"sticky": topics("t"), "range": topics("t")}, SUBSCRIPTION),
        ({"range": topics("t")}, SUBSCRIPTION),
        (BASE | {"range": b"\xff"}, METADATA),
    ],
)
def test_other_topics_are_told_from_another_state_of_the_same(
    after: dict[str, bytes], code: CauseCode
) -> None:
    assert what_changed("consumer", protocols(BASE), protocols(after)) == code


def test_metadata_that_is_no_subscription_has_changed_and_nothing_is_said_of_topics() -> None:
    before, after = protocols({"x": b"\xff"}), protocols({"x": b"\xfe"})
    assert what_changed("consumer", before, after) == METADATA
    worker = protocols({"sessioned": topics("t")}), protocols({"sessioned": topics("u")})
    assert what_changed("connect", *worker) == METADATA


def worker(offset: int, version: int = 2) -> dict[str, bytes]:
    url = b"http://worker:8083/"
    head = pack(">hh", version, len(url)) + url + pack(">q", offset)
    return {"sessioned": head + (pack(">i", -1) if version else b"")}


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_worker_of_connect_that_has_read_a_newer_configuration_says_so(version: int) -> None:
    scene = Scene()
    scene.form("lea", "fred", type="connect", protocols=worker(5, version))
    scene.join("fred", protocols=worker(6, version))
    assert scene.cause.code is METADATA
    assert scene.cause.likely == "config_changed"
    assert scene.cause.evidence == {"config_offsets": [5, 6]}


@pytest.mark.parametrize(
    "data", [worker(5)["sessioned"] + b"more", worker(6, 3)["sessioned"], b"x"]
)
def test_other_metadata_of_a_worker_is_not_explained(data: bytes) -> None:
    scene = Scene()
    scene.form("lea", "fred", type="connect", protocols=worker(5))
    scene.join("fred", protocols={"sessioned": data})
    assert (scene.cause.code, scene.cause.likely) == (METADATA, None)


@pytest.mark.parametrize(
    ("who", "says", "code"),
    [
        ("fred", {}, LOADED),
        ("lea", {}, LEADER),
        ("lea", {"reason": "cached metadata has changed from (version2: 6) at ..."}, LEADER),
        ("fred", {"protocols": RANGE_RR | {"range": topics("t", "u")}}, SUBSCRIPTION),
        ("fred", {"protocols": RANGE_RR | {"range": topics("t", owned=1)}}, MEMBER),
    ],
)
def test_a_rejoin_after_a_load_is_compared_with_what_is_stored(
    who: str, says: dict[str, Any], code: CauseCode
) -> None:
    scene = Scene()
    scene.form("lea", "fred", protocols=RANGE_RR)
    scene.crash()
    scene.join(who, **says)
    assert scene.state == "PreparingRebalance"  # as in Kafka
    assert scene.cause.code is code
    # Java says that its metadata has changed when it had lost all brokers, too.
    stalled = code is not SUBSCRIPTION
    assert (scene.cause.likely == "coordinator_stalled") is stalled


@pytest.mark.parametrize(
    ("beats", "likely"),
    [(1, "coordinator_stalled"), (2, "coordinator_stalled"), (6, "partitions_changed")],
)
def test_a_leader_may_beat_after_a_load_before_it_reads_its_metadata_anew(
    beats: int, likely: str
) -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.crash()
    for _ in range(beats):
        scene.advance(1_500)
        scene.heartbeat("lea")
    scene.join("lea", reason="cached metadata has changed")
    assert (scene.cause.code, scene.cause.likely) == (LEADER, likely)


def test_the_second_rejoin_after_a_load_has_the_reason_that_the_client_gives() -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.crash()
    for name in ("lea", "fred"):
        scene.join(name, reason="cached metadata has changed")
    scene.sync_all("lea", "fred")
    scene.advance(1_500)
    scene.heartbeat("lea")
    scene.join("lea", reason="cached metadata has changed")
    assert (scene.cause.code, scene.cause.likely) == (LEADER, "partitions_changed")


def test_a_second_rejoin_after_a_load_is_compared_with_all_that_was_offered() -> None:
    scene = Scene()
    scene.form("lea", "fred", protocols=RANGE_RR)
    scene.crash()
    for name in ("fred", "lea"):
        scene.join(name)
    scene.sync_all("lea", "fred")
    assert scene.join("fred").outcome == "NONE"  # repeated, and no rebalance
    scene.join("fred", protocols={"range": topics("t")})
    assert scene.cause.code is SUBSCRIPTION


WORDS = {
    "cached metadata has changed from (version1: {t=6}) at the beginning of the rebalance to "
    "(version2: {t=12})": "partitions_changed",
    "rebalance enforced by user": "rebalance_enforced",
    "Scheduled probing rebalance": "probing_rebalance",
    "need to revoke partitions [t-0] as indicated by the current assignment and re-join": (
        "partitions_revoked"
    ),
    "triggered followup rebalance scheduled for 1764000000000": "probing_rebalance",
    "from ForceRebalance": "rebalance_enforced",
    "rejoining because we are the leader and noticed some topics have new partitions": (
        "partitions_changed"
    ),
    "the moon is full": None,
}


@pytest.mark.parametrize("reason", WORDS)
def test_the_words_of_the_client_are_the_guess(reason: str) -> None:
    scene = Scene()
    scene.form("lea", "fred")
    scene.join("lea", reason=reason)
    assert scene.cause.code is LEADER
    assert (scene.cause.reason, scene.cause.likely) == (reason, WORDS[reason])
