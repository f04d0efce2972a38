"""The request classes of the group APIs, for tests that go through all of them."""

from typing import Any

from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.apis import GROUP_APIS
from groupkeeper.coordinator.commit import PreparedCommit
from groupkeeper.coordinator.group_configs import GroupConfigsRequest

_OWN = PreparedCommit, ListOfGroups, GroupConfigsRequest
CLIENT_REQUESTS: list[Any] = [request for request in GROUP_APIS if request not in _OWN]
"""Those that clients send; the others are pieces of them."""
