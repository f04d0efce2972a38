"""What a returning member has changed."""

import pytest

from groupkeeper.coordinator.join_call import what_changed
from groupkeeper.protocol.group_events import CauseCode
from groupkeeper.protocol.messages.join_group import JoinGroupRequestProtocol
from tests.support.scene import topics

SUBSCRIPTION, MEMBER = CauseCode.SUBSCRIPTION_CHANGED, CauseCode.MEMBER_REJOINED
BASE = {"range": topics("t"), "sticky": topics("t")}


@pytest.mark.parametrize(
    ("after", "code"),
    [
        (BASE | {"range": topics("t", owned=1)}, MEMBER),
        ({name: topics("t", owned=2) for name in BASE}, MEMBER),
        (BASE | {"range": topics("t", "u")}, SUBSCRIPTION),
        ({"sticky": topics("t"), "range": topics("t")}, SUBSCRIPTION),
        ({"range": topics("t")}, SUBSCRIPTION),
        (BASE | {"range": b"\xff"}, SUBSCRIPTION),
    ],
)
def test_other_topics_are_told_from_another_state_of_the_same(
    after: dict[str, bytes], code: CauseCode
) -> None:
    before, now = (
        [JoinGroupRequestProtocol(name=n, metadata=m) for n, m in each.items()]
        for each in (BASE, after)
    )
    assert what_changed(before, now) == code


def test_what_was_never_readable_counts_as_changed() -> None:
    before, after = ([JoinGroupRequestProtocol(name="x", metadata=m)] for m in (b"\xff", b"\xfe"))
    assert what_changed(before, after) == SUBSCRIPTION
