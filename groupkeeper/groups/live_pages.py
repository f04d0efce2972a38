"""`GET /groups/GROUP` of the HTTP port: what one group is doing right now, as JSON.

`coordinator.live` looks; this finds the group, hides what `group.events.personal` hides in events,
and encodes large answers in slices.
"""

import json
from collections.abc import Callable
from typing import Any, Final

from groupkeeper.groups.event_limits import Personal
from groupkeeper.groups.group_partitions import GroupPartitions
from groupkeeper.observe.http_limits import Page
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.turns import Slices, Turns

JSON: Final = "application/json"
ROWS_IN_A_SLICE: Final = 200
"""Members encoded at a time, about half a millisecond."""


class LivePages:
    """Makes the page of a group."""

    def __init__(
        self,
        partitions: GroupPartitions,
        turns: Turns,
        about: Callable[[], dict[str, Any]],
        personal: Personal,
    ) -> None:
        """`about`: what identifies this server, at the beginning of every answer."""
        self._partitions = partitions
        self._turns = turns
        self._about = about
        self._personal = personal

    async def page(self, group_id: str) -> Page:
        """404 for a group that does not exist, 503 while its partition does not serve."""
        return await self._turns.run(self._slices(group_id))

    def _slices(self, group_id: str) -> Slices[Page]:
        driver, about = self._partitions.of(group_id), self._about()
        if driver.absence is not ErrorCode.NONE:
            reason = f"the partition of group '{group_id}' is {driver.snapshot().state}"
            return 503, JSON, _dump(about | {"error": reason})
        looked = driver.look(group_id)
        if looked is None:
            return 404, JSON, _dump(about | {"error": f"group '{group_id}' does not exist"})
        view = yield from looked
        members = view.pop("members")
        shown = self._personal.shown
        head = _dump(about | shown(view))[:-2]  # without the closing brace
        parts = []
        for start in range(0, len(members), ROWS_IN_A_SLICE):
            rows = shown(members[start : start + ROWS_IN_A_SLICE])
            parts.append(json.dumps(rows).encode()[1:-1])
            yield
        return 200, JSON, head + b', "members": [' + b", ".join(parts) + b"]}\n"


def _dump(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"
