"""Requests for very many: no step does much, others come in between, and the answer is the same."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from groupkeeper.apis import groups_request, offset_fetch
from groupkeeper.apis.describe_groups import DescribeGroupsHandler
from groupkeeper.apis.gather import PART_PARTITIONS
from groupkeeper.apis.leave_group import PART_MEMBERS
from groupkeeper.apis.list_groups import PART_GROUPS
from groupkeeper.coordinator.caller import Caller, Peer
from groupkeeper.coordinator.partition import Partition
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.mapped import FREED_IN_A_SLICE, free
from groupkeeper.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from groupkeeper.protocol.messages.delete_groups import DeleteGroupsRequest
from groupkeeper.protocol.messages.delete_topics import DeleteTopicsRequest
from groupkeeper.protocol.messages.describe_groups import DescribeGroupsRequest
from groupkeeper.protocol.messages.find_coordinator import FindCoordinatorRequest
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol
from groupkeeper.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from groupkeeper.protocol.messages.list_groups import ListGroupsRequest
from tests.support.requests import (
    codes_of,
    commit_request,
    fetch_request,
    flat_fetch_request,
    join_request,
    offset_delete_request,
    sync_request,
)
from tests.support.served import Client, Lines, Served, settle
from tests.support.work import Work

INVALID, LOADING = ErrorCode.INVALID_REQUEST, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
MANY = 3_000


@pytest.fixture
def client(served: Served) -> Client:
    return served.client()


@pytest.fixture
def large(client: Client) -> int:
    """A topic called `large` that has so many partitions."""
    count = 3 * PART_PARTITIONS + 7
    topic = CreatableTopic(name="large", num_partitions=count, replication_factor=1)
    created = client.call(4, CreateTopicsRequest(topics=[topic], timeout_ms=1000))
    assert created.topics[0].error_code == 0
    return count


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What was decided: the request, and how many it named."""
    found: list[tuple[str, int]] = []
    handle = Partition.handle

    def spied(partition: Partition, request: Any, *rest: Any) -> Any:
        named: Sequence[Any] = ()
        for name in ("groups", "groups_names", "group_ids", "members"):
            named = getattr(request, name, named)
        found.append((type(request).__name__, len(named)))
        return handle(partition, request, *rest)

    monkeypatch.setattr(Partition, "handle", spied)
    return found


class Answers:
    """The place of answers."""

    def __init__(self) -> None:
        self.given: list[Any] = []

    def answer(self, response: Any) -> None:
        self.given.append(response)


def limits(lines: Lines) -> list[str]:
    return [line["limit"] for line in lines() if line["event"] == "limit reached"]


def fail(served: Served) -> None:
    async def now() -> None:
        served.fail()

    served.run(now())


# -- many groups -----------------------------------------------------------------------------------


def test_many_groups_are_described_a_hundred_at_a_time(
    client: Client, steps: list[tuple[str, int]]
) -> None:
    ids = [f"g{n}" for n in range(MANY)]
    client.commit(1, "g7")
    groups = client.call(5, DescribeGroupsRequest(groups=ids)).groups
    assert [group.group_id for group in groups] == ids
    assert [group.group_id for group in groups if group.group_state == "Empty"] == ["g7"]
    asked = [count for name, count in steps if name == "DescribeGroupsRequest"]
    assert sum(asked) == MANY
    assert max(asked) == groups_request.BATCH_GROUPS


def test_no_slice_takes_long_and_no_item_stays_behind(served: Served) -> None:
    """Of the request's ids nothing is left when they are looked up, and of the results nothing but
    what the response frees in slices.
    """
    ids, answers = [f"g{n}" for n in range(MANY)], Answers()
    request, caller = DescribeGroupsRequest(groups=ids), Caller(5, Peer())

    async def ask() -> list[int]:
        handler = DescribeGroupsHandler(served.server.group_partitions)
        asking, lines = handler.handle(request, caller, answers), []
        end = object()
        while True:
            work = Work()
            if work.count("a slice", partial(next, asking, end))() is end:
                return lines
            lines.append(work.longest)

    lines = served.run(ask())
    assert len(lines) > MANY / groups_request.BATCH_GROUPS
    assert max(lines) < 150 * groups_request.BATCH_GROUPS
    assert ids == []
    [response] = answers.given
    assert len(response.groups) == MANY
    assert len([*free(response)]) == MANY // FREED_IN_A_SLICE - 1
    assert len(response.groups) == 0


def test_others_are_decided_between_the_pieces(
    served: Served, client: Client, steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    other = served.client()
    member_id, generation = settle(other)
    monkeypatch.setattr("groupkeeper.connections.connection.TURN_S", 0.0)
    long = client.frame(5, DescribeGroupsRequest(groups=[f"g{n}" for n in range(MANY)]))
    short = other.frame(5, sync_request(member_id, generation))
    served.at_once({client: long, other: short})
    assert other.take().error_code == 0
    assert len(client.take().groups) == MANY
    names = [name for name, _ in steps]
    assert names[-1] == "DescribeGroupsRequest"
    assert names.count("SyncGroupRequest") == 2


def test_what_is_asked_for_again_is_described_once_and_answered_again(
    client: Client, steps: list[tuple[str, int]]
) -> None:
    settle(client, "a")
    ids = ["a", "b", "a"] * 500
    groups = client.call(5, DescribeGroupsRequest(groups=ids)).groups
    assert [group.group_id for group in groups] == ids
    assert [len(group.members) for group in groups] == [1, 0, 1] * 500
    assert sum(count for name, count in steps if name == "DescribeGroupsRequest") == 2


def test_large_groups_end_a_piece(
    client: Client, steps: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_request, "BATCH_ITEMS", 1)
    for name in ("a", "b", "c"):
        settle(client, name)
    client.call(5, DescribeGroupsRequest(groups=["a", "b", "c"]))
    assert [count for name, count in steps if name == "DescribeGroupsRequest"] == [1, 1, 1]


def test_too_many_ids_are_all_refused_and_a_line_says_so(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(groups_request, "MAX_GROUPS_ASKED", 2)
    asked = ["a", "b", "a", "a"]
    described = client.call(5, DescribeGroupsRequest(groups=asked)).groups
    assert [(g.group_id, g.error_code) for g in described] == [("a", INVALID), ("b", INVALID)]
    fetched = client.call(8, fetch_request(*asked)).groups
    assert {group.error_code for group in fetched} == {INVALID}
    deleted = client.call(2, DeleteGroupsRequest(groups_names=asked)).results
    assert {result.error_code for result in deleted} == {INVALID}
    assert limits(lines) == ["max_groups_asked"] * 3


def test_what_an_answer_has_no_room_for_is_to_be_asked_for_again(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("a", "b"):
        settle(client, name)
    monkeypatch.setattr(groups_request, "MAX_ANSWER_BYTES", 200)
    groups = client.call(5, DescribeGroupsRequest(groups=["a", "b"])).groups
    assert sorted(group.error_code for group in groups) == [0, LOADING]
    assert limits(lines) == ["max_answer_bytes"]
    monkeypatch.setattr(groups_request, "MAX_ANSWER_BYTES", 1)
    [alone] = client.call(5, DescribeGroupsRequest(groups=["a"])).groups
    assert (alone.error_code, len(alone.members)) == (0, 1), "one group is always answered"


def test_metadata_that_is_not_told_takes_no_room(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=bytes(10_000))]
    for name in ("a", "b"):
        request = join_request(name)
        request.protocols = protocols
        assert client.call(3, request).error_code == 0
    monkeypatch.setattr(groups_request, "MAX_ANSWER_BYTES", 10_000)
    groups = client.call(5, DescribeGroupsRequest(groups=["a", "b"])).groups
    told = [(each.group_state, each.error_code, each.members[0].member_metadata) for each in groups]
    assert told == [("CompletingRebalance", 0, b"")] * 2


def test_many_groups_are_listed_in_pieces(client: Client, steps: list[tuple[str, int]]) -> None:
    for n in range(0, MANY, 2):
        client.commit(1, f"g{n}")
    listed = client.call(4, ListGroupsRequest()).groups
    assert {group.group_id for group in listed} == {f"g{n}" for n in range(0, MANY, 2)}
    assert max(count for name, count in steps if name == "ListOfGroups") <= PART_GROUPS


@pytest.mark.parametrize(("state", "count"), [("empty", 1), ("Stable", 0), ("nonsense", 0)])
def test_very_many_filters_are_looked_through(client: Client, state: str, count: int) -> None:
    client.commit(1)
    many = [f"x{n}" for n in range(5_000)] + [state]
    groups = client.call(5, ListGroupsRequest(states_filter=many)).groups
    assert len(groups) == count


def test_many_keys_are_found_and_too_many_refused(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = [f"g{n}" for n in range(MANY)]
    found = client.call(4, FindCoordinatorRequest(coordinator_keys=keys)).coordinators
    assert [each.key for each in found] == keys
    monkeypatch.setattr("groupkeeper.apis.find_coordinator.MAX_KEYS_ASKED", 10)
    found = client.call(4, FindCoordinatorRequest(coordinator_keys=keys)).coordinators
    assert {each.error_code for each in found} == {INVALID}
    assert limits(lines) == ["max_keys_asked"]


# -- many offsets ----------------------------------------------------------------------------------


def test_a_large_commit_is_answered_as_a_small_one(client: Client, large: int) -> None:
    places = {("large", n): n for n in range(-1, large + 2)} | {("orders", 0): 5, ("gone", 0): 1}
    codes = codes_of(client.call(8, commit_request(places)))
    unknown = {("large", -1), ("large", large), ("large", large + 1), ("gone", 0)}
    assert list(codes) == list(places)
    assert {place for place, code in codes.items() if code} == unknown
    assert {codes[place] for place in unknown} == {UNKNOWN}
    assert client.fetched() == {p: offset for p, offset in places.items() if p not in unknown}


def test_a_large_commit_is_refused_as_a_small_one(client: Client, large: int) -> None:
    places = {("large", n): n for n in range(large + 1)}
    request = commit_request(places, member_id="stranger", generation=3)
    codes = codes_of(client.call(8, request))
    assert codes.pop(("large", large)) == UNKNOWN
    assert set(codes.values()) == {ErrorCode.ILLEGAL_GENERATION}
    assert client.fetched() == {}


def test_a_large_commit_survives(served: Served, client: Client, large: int) -> None:
    places = {("large", n): n for n in range(large)}
    client.call(8, commit_request(places))
    served.restart()
    served.settled()
    assert served.client().fetched() == places


@pytest.mark.parametrize(("most", "code"), [(38_461, 0), (38_460, ErrorCode.UNKNOWN_SERVER_ERROR)])
def test_a_large_commit_may_be_as_large_as_one_batch(
    serve: Callable[..., Served], most: int, code: int
) -> None:
    """However many topics its records are of."""
    client = serve(f"message.max.bytes={most}").client()
    names = [f"topic-{n:03}" for n in range(600)]
    topics = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    client.call(4, CreateTopicsRequest(topics=topics, timeout_ms=1000))
    codes = codes_of(client.call(8, commit_request({(name, 0): 1 for name in names})))
    assert set(codes.values()) == {code}


def test_a_large_deletion_is_answered_as_a_small_one(client: Client, large: int) -> None:
    places = {("large", n): n for n in range(large)} | {("orders", 0): 5, ("orders", 1): 6}
    client.call(8, commit_request(places))
    asked = [("orders", 1), *(("large", n) for n in range(large + 1)), ("gone", 0)]
    codes = codes_of(client.call(0, offset_delete_request(asked)))
    assert list(codes) == asked
    assert {p: c for p, c in codes.items() if c} == dict.fromkeys([asked[-2], asked[-1]], UNKNOWN)
    assert client.fetched() == {("orders", 0): 5}


def test_a_large_deletion_of_no_group_is_one_error(client: Client, large: int) -> None:
    asked = [("large", n) for n in range(large)]
    reply = client.call(0, offset_delete_request(asked))
    assert (reply.error_code, reply.topics) == (ErrorCode.GROUP_ID_NOT_FOUND, [])


@pytest.mark.parametrize("version", [2, 5, 7])
def test_all_offsets_of_a_large_group_in_the_older_form(
    client: Client, large: int, version: int
) -> None:
    client.call(8, commit_request({("large", n): n for n in range(large)}))
    reply = client.call(version, flat_fetch_request("g"))
    assert [row.committed_offset for row in reply.topics[0].partitions] == list(range(large))


def test_more_of_one_group_than_may_be_asked_for(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "MAX_PARTITIONS_ASKED", 10)
    monkeypatch.setattr(offset_fetch, "MAX_TOPICS_ASKED", 2)
    client.commit(3)
    for topics, code in (
        ({"orders": list(range(10))}, 0),
        ({"orders": list(range(11))}, INVALID),
        ({"a": [0], "b": [0], "c": [0]}, INVALID),
    ):
        [group] = client.call(8, fetch_request("g", topics=topics)).groups
        assert group.error_code == code
    assert limits(lines) == ["max_partitions_asked", "max_topics_asked"]


@pytest.mark.parametrize("version", [1, 7, 8])
def test_a_fetch_of_very_many_topics_is_answered_as_one_of_few(
    client: Client, steps: list[tuple[str, int]], version: int
) -> None:
    client.commit(7)
    topics = {f"t{n}": [0] for n in range(10_001)} | {"orders": list(range(6)), "payments": [0]}
    asked = fetch_request("g", "h", topics=topics)
    reply = client.call(version, asked if version == 8 else flat_fetch_request("g", topics))
    found = reply.groups[0] if version == 8 else reply
    assert not found.error_code
    assert [topic.name for topic in found.topics] == list(topics)
    offsets = [[row.committed_offset for row in topic.partitions] for topic in found.topics]
    assert offsets == [*[[-1]] * 10_001, [7, *[-1] * 5], [-1]]
    if version == 8:
        assert [topic.name for topic in reply.groups[1].topics] == list(topics)
    assert len([name for name, _ in steps if name == "OffsetFetchRequest"]) >= 10


def test_a_fetch_in_several_parts_is_refused_as_one(
    served: Served, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(offset_fetch, "PART_TOPICS", 1)
    served.fail()
    client.deliver(client.frame(8, fetch_request("g", topics={"orders": [0], "payments": [0]})))
    [group] = client.take().groups
    assert (group.error_code, group.topics) == (LOADING, [])


# -- many members ----------------------------------------------------------------------------------


def test_many_leave_in_pieces_and_everybody_is_answered_in_order(
    served: Served, client: Client, steps: list[tuple[str, int]]
) -> None:
    member_id, _ = settle(client)
    strangers = [f"s{n}" for n in range(3 * PART_MEMBERS)]
    entries = [MemberIdentity(member_id=each) for each in [*strangers, member_id, member_id]]
    members = client.call(5, LeaveGroupRequest(group_id="g", members=entries)).members
    assert [each.member_id for each in members] == [each.member_id for each in entries]
    gone = ErrorCode.UNKNOWN_MEMBER_ID
    assert [each.error_code for each in members] == [gone] * len(strangers) + [0, gone]
    assert served.members() == 0
    assert max(count for name, count in steps if name == "LeaveGroupRequest") == PART_MEMBERS


def test_more_than_may_leave_at_once(
    client: Client, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("groupkeeper.apis.leave_group.MAX_LEAVING", 3)
    assert client.leave("a", "b", "c", "d") == INVALID
    assert limits(lines) == ["max_leaving"]


def test_a_plan_for_very_many_strangers(client: Client) -> None:
    joined = client.join()
    plan = {f"s{n}": b"none" for n in range(5_000)} | {joined.member_id: b"mine"}
    synced = client.sync(joined.member_id, joined.generation_id, **plan)
    assert (synced.error_code, synced.assignment) == (0, b"mine")


# -- deletions -------------------------------------------------------------------------------------


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groupkeeper.coordinator.deletion.PIECE_OFFSETS", 100)


@pytest.mark.usefixtures("small_pieces")
def test_a_large_group_is_deleted_in_pieces_and_is_not_seen_half(
    served: Served, client: Client, large: int
) -> None:
    client.call(8, commit_request({("large", n): n for n in range(large)}))
    other = served.client()
    client.send(2, DeleteGroupsRequest(groups_names=["g", "nobody"]))
    served.advance(0.02)
    assert not client.frames
    assert other.commit(1) == LOADING
    assert other.call(8, fetch_request("g")).groups[0].error_code == LOADING
    assert other.join().error_code == LOADING
    served.check_accounts()
    codes = {each.group_id: each.error_code for each in client.take().results}
    assert codes == {"g": 0, "nobody": ErrorCode.GROUP_ID_NOT_FOUND}
    assert other.fetched() == {}
    assert other.commit(1) == 0
    served.restart()
    served.settled()
    assert served.client().fetched() == {("orders", 0): 1}


@pytest.mark.usefixtures("small_pieces")
def test_a_group_that_is_being_deleted_costs_no_other_its_answer(
    served: Served, client: Client, large: int
) -> None:
    client.call(8, commit_request({("large", n): n for n in range(large)}))
    other = served.client()
    near = [each for n in range(40) if served.driver(each := f"h{n}") is served.driver("g")][:2]
    for group_id in near:
        assert other.commit(1, group_id) == 0
    client.send(2, DeleteGroupsRequest(groups_names=["g"]))
    served.advance(0.02)
    asked = [near[0], "g", near[1]]
    described = other.call(5, DescribeGroupsRequest(groups=asked)).groups
    fetched = other.call(8, fetch_request(*asked)).groups
    deleted = other.call(2, DeleteGroupsRequest(groups_names=asked)).results
    assert not client.frames
    for answers in (described, fetched, deleted):
        assert [(each.group_id, each.error_code) for each in answers] == [
            (near[0], 0),
            ("g", LOADING),
            (near[1], 0),
        ]
    assert client.take().results[0].error_code == 0


@pytest.mark.usefixtures("small_pieces")
def test_a_partition_that_fails_meanwhile_refuses_the_deletion(
    served: Served, client: Client, large: int
) -> None:
    client.call(8, commit_request({("large", n): n for n in range(large)}))
    client.send(2, DeleteGroupsRequest(groups_names=["g"]))
    served.advance(0.02)
    fail(served)
    assert client.take().results[0].error_code == ErrorCode.NOT_COORDINATOR
    served.settled()
    assert 0 < len(served.client().fetched()) < large
    assert client.call(2, DeleteGroupsRequest(groups_names=["g"])).results[0].error_code == 0
    assert served.client().fetched() == {}


@pytest.mark.usefixtures("small_pieces")
def test_a_piece_of_a_deleted_topic_is_durable_before_the_next_one(
    client: Client, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group_id in ("g", "h"):
        client.call(8, commit_request({("large", n): n for n in range(large)}, group_id))
    unwritten: list[int] = []
    forget = Partition.forget_topics

    def spied(partition: Partition, *rest: Any) -> Any:
        unwritten.append(partition.gate.appended - partition.gate.durable)
        return forget(partition, *rest)

    monkeypatch.setattr(Partition, "forget_topics", spied)
    client.call(5, DeleteTopicsRequest(topic_names=["large"], timeout_ms=1000))
    assert len(unwritten) > 2 * large / 100
    assert set(unwritten) == {0}


@pytest.mark.usefixtures("small_pieces")
def test_a_deleted_topic_is_forgotten_in_pieces(
    client: Client, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for group_id in ("g", "h"):
        places = {("large", n): n for n in range(large)} | {("orders", 0): 7}
        client.call(8, commit_request(places, group_id))
    removed: list[int] = []
    forget = Partition.forget_topics

    def spied(partition: Partition, *rest: Any) -> Any:
        step = forget(partition, *rest)
        removed.extend(getattr(fact, "offsets", 0) for fact in step.facts)
        return step

    monkeypatch.setattr(Partition, "forget_topics", spied)
    client.call(5, DeleteTopicsRequest(topic_names=["large"], timeout_ms=1000))
    assert (sum(removed), max(removed)) == (2 * large, 100)
    assert client.fetched("g") == client.fetched("h") == {("orders", 0): 7}
