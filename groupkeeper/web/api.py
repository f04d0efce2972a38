"""The API under `/api/v1`: the table of routes, also the source of the OpenAPI document, and the
handling of requests: finds the route, checks the parameters, encodes the result.
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
        f"Only the last N rounds; default {timeline.ROUNDS} without `since`.",
        "number",
        least=1,
        most=timeline.ROUNDS_MOST,
    ),
    Parameter("since", "Only rounds from this time on, in Unix milliseconds.", "number"),
    Parameter("before", "Only rounds before a place: `next` of a response.", "place"),
)
_OF_A_GROUP: Final = (404, 421, 503)
_OF_A_CHANGE: Final = (403, 404, 409, 415, 421, 503)


def _of_group(path: str, handle: Handle, about: str, answer: str, *parameters: Parameter) -> Route:
    """Make a route below a group; routes with parameters read the group's stored events."""
    where, known = f"groups/{{group}}{path}", table(*parameters)
    events = bool(parameters)
    return Route(where, handle, about, answer, known, statuses=_OF_A_GROUP, reads_events=events)


def _change(path: str, handle: Handle, about: str, body: str, answer: str) -> Route:
    """Make a route below a group that changes something."""
    where = f"groups/{{group}}{path}"
    about = f"{about} Needs a token with the role `write`, or `http.api.write`."
    return Route(where, handle, about, answer, {}, "POST", _OF_A_CHANGE, body)


ROUTES: Final = (
    Route(
        "groups",
        group_list.groups,
        "Groups in pages, ordered by id.",
        "Groups",
        table(
            Parameter("search", "Only groups whose id contains this text, ignoring case."),
            Parameter("state", "Only groups in this state.", of=group_list.STATES),
            Parameter(
                "limit",
                "Maximum number of groups.",
                "number",
                default=group_list.LIMIT,
                least=1,
                most=group_list.LIMIT_MOST,
            ),
            Parameter("after", "Only groups after this id: `next` of a response."),
        ),
    ),
    _of_group("", group_view.group, "A group's present state, and what it waits for.", "Group"),
    _of_group(
        "/members", group_view.members, "The members of a group and their assignments.", "Members"
    ),
    _of_group(
        "/lag",
        group_view.group_lag,
        "A group's lag by partition, and its history for the last hour since the first request.",
        "GroupLag",
    ),
    _of_group(
        "/instances/{instance}",
        group_view.instance,
        "Probe: whether a static member is in the group, and the group is Stable.",
        "Instance",
    ),
    _of_group(
        "/rounds",
        timeline.rounds,
        "Rebalances of a group, oldest first, with causes and descriptions.",
        "Rounds",
        *_LAST,
    ),
    _of_group(
        "/why",
        timeline.why,
        "The output of `groupkeeper why --json`: rounds, other events, and the present state.",
        "Why",
        *_LAST,
    ),
    _of_group(
        "/timeline",
        timeline.timeline,
        "Rebalances of a group and what happened between them, oldest first, repeated events in one"
        " row.",
        "Timeline",
        *_LAST,
    ),
    _of_group(
        "/events",
        timeline.events,
        "Stored events of a group, oldest first: after a place, or the last ones.",
        "Events",
        Parameter("after", "Only events after a place: `next` of a response.", "place"),
        Parameter(
            "limit",
            "Maximum number of events.",
            "number",
            default=timeline.EVENTS,
            least=1,
            most=timeline.EVENTS_MOST,
        ),
    ),
    _change(
        "/members/remove",
        changes.remove_members,
        "Remove members; causes one rebalance.",
        "Removal",
        "Removed",
    ),
    _change(
        "/offsets/reset",
        changes.reset_offsets,
        "Set committed offsets of an Empty group, all or none.",
        "Offsets",
        "Reset",
    ),
    _change(
        "/offsets/delete",
        changes.delete_offsets,
        "Delete committed offsets of topics that no member subscribes.",
        "Places",
        "DeletedOffsets",
    ),
    _change(
        "/delete",
        changes.delete_group,
        "Delete an Empty group with its offsets.",
        "Deletion",
        "DeletedGroup",
    ),
    Route(
        "follow",
        follow.follow,
        "New events as server-sent events, from now on or after Last-Event-ID.",
        "",
        table(
            Parameter("group", "Only events of this group."),
            Parameter("after", "Same as Last-Event-ID, which has precedence.", "place"),
        ),
        statuses=(409, 421, 503),
    ),
)
"""All routes, in the order of the OpenAPI document."""
_OF_LAG: Final = frozenset({"groups/{group}/lag"})
"""Paths of routes that an observer lacks if it does not ask where logs end."""


class HttpApi:
    """The API of one server."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        is_left_out = frozenset[str]() if parts.knows_lag else _OF_LAG
        self._routes = [each for each in ROUTES if each.path not in is_left_out]

    def close(self) -> None:
        """Stop background work, when the server stops."""
        self._parts.history.close()

    async def answer(self, request: HttpRequest) -> HttpAnswer:
        """Handle one request. Errors are `{"error": ...}` with a status."""
        try:
            if request.path == DOCUMENT:
                return await self._found(document(self._routes, DOCUMENTED))
            route, names = find_route(self._routes, PREFIX, request)
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
