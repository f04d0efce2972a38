"""What an `events_dropped` says about the clients whose events were left out."""

from collections.abc import Sequence

import pytest

from groupkeeper.coordinator.causes import Who
from groupkeeper.groups.event_batch import Dropped

ONE, OTHER = Who("m-1", None, "app", "/10.0.0.1"), Who("m-2", None, "app", "/10.0.0.1")
STATIC = Who("", "i", "app", "/10.0.0.1")
ELSEWHERE = Who("m-3", None, "app", "/10.0.0.2")


@pytest.mark.parametrize(
    ("senders", "told"),
    [
        ((ONE, ONE), ("m-1", None, "10.0.0.1")),
        ((ONE, OTHER, ONE, OTHER), ("", None, "10.0.0.1")),
        ((STATIC, ONE), ("", None, "10.0.0.1")),
        ((ONE, ELSEWHERE), None),
        ((ONE, None), None),
        ((None, None), None),
        ((None, ONE, OTHER), None),
    ],
)
def test_the_sender_is_told_as_far_as_all_have_it_in_common(
    senders: Sequence[Who | None], told: tuple[str, str | None, str] | None
) -> None:
    dropped = Dropped()
    for who in senders:
        dropped.add("member_joined", "g", who)
    who = dropped.event(0, 0).fields["who"]
    assert (who and (who["member"], who["instance"], who["host"])) == told
