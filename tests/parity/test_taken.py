"""What a test broker has written down is played again."""

from pathlib import Path

from groupkeeper.testing import Broker
from tests.parity import virtual
from tests.parity.taken import Said, read, taken
from tests.parity.transcript import Run, parse
from tests.support.raw_member import member, settle


def test_a_conversation_is_played_again_and_answered_alike() -> None:
    with Broker(topics={"orders": 2, "clicks": 3}) as broker:
        with member(broker, "lea") as lea, member(broker, "sam", instance="SAM") as sam:
            settle(lea, sam)
            lea.commit(5)
            sam.commit(7, "clicks", 2)
            lea.generation = 1
            lea.beat()
            lea.generation = 2
            lea.leave()
            sam.beat()
            lea.beat()
        text = broker.transcript()
    [transcript] = parse(Path("taken.txt"), taken(text, "A conversation"))
    played = virtual.play(Run(transcript, None))
    again = read("\n".join(line for lines in played.lines for line in lines))
    before = [each for each in read(text) if not each.is_request]
    assert sorted(_essence(each) for each in again if each.api != "CreateTopics") == sorted(
        _essence(each) for each in before
    )
    assert len(before) > 10


def _essence(said: Said) -> tuple[str, ...]:
    names = ("generation_id", "leader", "member_id")
    return said.who, said.api, *(said.fields.get(name, "") for name in names)


def test_what_is_not_about_groups_is_counted() -> None:
    text = """\
   0.001  lea -> Metadata v13: allow_auto_topic_creation=True
   0.001  lea <- Metadata:
   0.002  lea -> OffsetFetch v8:
            groups: group_id=billing
              topics: name=orders partition_indexes=[0, 1]
   0.003  lea -> OffsetFetch v5: group_id=billing (2 times, until 0.004)
"""
    assert taken(text, "It fetches") == (
        "== It fetches\n# Not taken: 1 Metadata.\n"
        "> fetch lea v=8 client=lea groups=billing topics=orders-0,orders-1\n\n"
        "> fetch lea v=5 client=lea groups=billing topics=all"
    )
