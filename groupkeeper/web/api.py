"""The API under `/api/v1`: its table of routes, which its OpenAPI document describes, too, and the
answer to a request: finds the route, checks the parameters, encodes what was found.
"""

from contextlib import nullcontext
from typing import Final

from groupkeeper.observe.http_exchange import HttpAnswer, HttpRequest, json_line
from groupkeeper.web import changes, follow, group_list, group_view, timeline
from groupkeeper.web.encoding import encoded
from groupkeeper.web.openapi import DOCUMENTED, PREFIX, document
from groupkeeper.web.parts import HttpRefused, Object, Parts, RoutedRequest
from groupkeeper.web.route import DOCUMENT, Handle, Parameter, Route, find_route, read_query, table

_LAST: Final = (
    Parameter(
        "last",
        f"The last N rounds; {timeline.ROUNDS} unless `since` is given.",
        "number",
        least=1,
        most=timeline.ROUNDS_MOST,
    ),
    Parameter("since", "From a time on, in Unix milliseconds.", "number"),
    Parameter("before", "Rounds before a place: `next` of an earlier answer.", "place"),
)
_OF_A_GROUP: Final = (404, 421, 503)
_OF_A_CHANGE: Final = (403, *_OF_A_GROUP, 415)


def _of_group(path: str, handle: Handle, about: str, answer: str, *parameters: Parameter) -> Route:
    """A route below a group; those with parameters read its stored events."""
    where, known = f"groups/{{group}}{path}", table(*parameters)
    events = bool(parameters)
    return Route(where, handle, about, answer, known, statuses=_OF_A_GROUP, reads_events=events)


ROUTES: Final = (
    Route(
        "groups",
        group_list.groups,
        "Groups in the order of their ids, in pages.",
        "Groups",
        table(
            Parameter("search", "Groups whose id has this text, in any case."),
            Parameter("state", "Groups in this state.", of=group_list.STATES),
            Parameter(
                "limit",
                "How many groups.",
                "number",
                default=group_list.LIMIT,
                least=1,
                most=group_list.LIMIT_MOST,
            ),
            Parameter("after", "Groups after this id: `next` of an earlier answer."),
        ),
    ),
    _of_group("", group_view.group, "A group as it is now: state, and what it waits for.", "Group"),
    _of_group(
        "/members", group_view.members, "The members of a group, and what they have.", "Members"
    ),
    _of_group(
        "/lag",
        group_view.group_lag,
        "How far a group is behind, by partition; and its last hour, since it is asked for.",
        "GroupLag",
    ),
    _of_group(
        "/instances/{instance}",
        group_view.instance,
        "Whether a static member has its place: a probe.",
        "Instance",
    ),
    _of_group(
        "/rounds",
        timeline.rounds,
        "Rebalances of a group, oldest first, with causes and words.",
        "Rounds",
        *_LAST,
    ),
    _of_group(
        "/why",
        timeline.why,
        "What `groupkeeper why --json` prints: rounds, other events, and the present.",
        "Why",
        *_LAST,
    ),
    _of_group(
        "/events",
        timeline.events,
        "Stored events of a group, oldest first: those after a place, or the last ones.",
        "Events",
        Parameter("after", "Events after a place: `next` of an earlier answer.", "place"),
        Parameter(
            "limit",
            "How many events.",
            "number",
            default=timeline.EVENTS,
            least=1,
            most=timeline.EVENTS_MOST,
        ),
    ),
    Route(
        "groups/{group}/members/remove",
        changes.remove_members,
        "Remove members, as an operator: one rebalance follows. Needs `http.api.write`.",
        "Removed",
        {},
        "POST",
        _OF_A_CHANGE,
        "Removal",
    ),
    Route(
        "groups/{group}/offsets/reset",
        changes.reset_offsets,
        "Set committed offsets of an Empty group: all or none. Needs `http.api.write`.",
        "Reset",
        {},
        "POST",
        (*_OF_A_CHANGE, 409),
        "Offsets",
    ),
    Route(
        "follow",
        follow.follow,
        "Server-sent events: what happens from now on, or after Last-Event-ID.",
        "",
        table(
            Parameter("group", "Of this group only."),
            Parameter("after", "As Last-Event-ID, which counts if both are given.", "place"),
        ),
        statuses=(409, 421, 503),
    ),
)
"""In the order in which the document shows them."""


class HttpApi:
    """The API of one server."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def close(self) -> None:
        """The server stops."""
        self._parts.history.close()

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """One request. What goes wrong is `{"error": ...}` with a status."""
        try:
            if request.path == DOCUMENT:
                return await self._found(document(ROUTES, DOCUMENTED))
            route, names = find_route(ROUTES, PREFIX, request)
            call = RoutedRequest(request, names, read_query(request.query, route.parameters))
            async with self._parts.reading if route.reads_events else nullcontext():
                found = await route.handle(self._parts, call)
                if isinstance(found, HttpAnswer):
                    return found
                return await self._found(self._parts.about() | found)
        except HttpRefused as refused:
            whole = self._parts.about() | {"error": refused.text} | refused.fields
            return HttpAnswer(refused.status, json_line(whole), headers=refused.headers)

    async def _found(self, whole: Object) -> HttpAnswer:
        return HttpAnswer(200, await self._parts.turns.run(encoded(whole)))
