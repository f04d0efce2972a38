"""`GET /groups`: the groups of this server, with filters and in pages."""

from heapq import nsmallest
from typing import Final

from groupkeeper.coordinator.group import GroupState
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.turns import Slices
from groupkeeper.web.group_view import add_lags, row
from groupkeeper.web.parts import Object, Parts, RoutedRequest

LIMIT: Final = 50
"""Default number of groups in a response."""
LIMIT_MOST: Final = 500
EPOCH_STATES: Final = ("Assigning", "Reconciling")
"""States of consumer and streams groups, which an observer has."""
STATES: Final = (*(str(each) for each in GroupState), *EPOCH_STATES)
CURSOR_MOST: Final = 300
"""Maximum length of a cursor; percent-encoded, it takes less than half of a request's headers."""
LAST_CHARACTER: Final = "\U0010ffff"
IDS_IN_A_SLICE: Final = 1_000
ROWS_IN_A_SLICE: Final = 20


async def groups(parts: Parts, call: RoutedRequest) -> Object:
    """Return one page, ordered by group id. The cursor is the last id of the previous page, so
    groups created or deleted in the meantime do not shift the others.
    """
    page = await parts.turns.run(_page(parts, call))
    await add_lags(parts, page["groups"])
    return page


def _page(parts: Parts, call: RoutedRequest) -> Slices[Object]:
    limit: int = call.query["limit"]
    total, found = yield from _find(parts, call, limit + 1)
    rows: list[Object] = []
    for number, group_id in enumerate(found[:limit], 1):
        group = parts.groups.of(group_id).peek(group_id)
        if group is not None:  # else it was deleted in the meantime
            rows.append(row(parts, group))
        if number % ROWS_IN_A_SLICE == 0:
            yield
    return {
        "groups": rows,
        "next": _cursor(found[limit - 1]) if len(found) > limit else None,
        "total": total,
        "not_active": [
            {"partition": now.partition, "state": now.state, "reason": now.reason}
            for now in (
                each.snapshot() for each in parts.groups if each.absence is not ErrorCode.NONE
            )
        ],
    }


def _cursor(group_id: str) -> str:
    """Return the cursor after an id. An id too long for a request is cut; the next page then skips
    other ids with the same beginning, but no others.
    """
    return group_id if len(group_id) <= CURSOR_MOST else group_id[:CURSOR_MOST] + LAST_CHARACTER


def _find(parts: Parts, call: RoutedRequest, most: int) -> Slices[tuple[int, list[str]]]:
    """Return the number of matching groups, and their first `most` ids after the cursor."""
    words: str = (call.query["search"] or "").casefold()
    state, after = call.query["state"], call.query["after"] or ""
    total, kept = 0, list[str]()
    for driver in parts.groups:
        ids = [] if driver.absence else driver.group_ids()
        for first in range(0, len(ids), IDS_IN_A_SLICE):
            some = ids[first : first + IDS_IN_A_SLICE]
            if words:
                some = [each for each in some if words in each.casefold()]
            if state:
                looked = ((each, driver.peek(each)) for each in some)
                some = [each for each, group in looked if group and group.state == state]
            total += len(some)
            kept += [each for each in some if each > after]
            if len(kept) > most + IDS_IN_A_SLICE:
                kept = nsmallest(most, kept)
            yield
        yield
    return total, sorted(kept)[:most]
