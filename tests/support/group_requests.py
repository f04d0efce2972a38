"""The request classes of the group APIs, for tests that go through all of them."""

from typing import Any

from groupkeeper.coordinator.admin import ListOfGroups
from groupkeeper.coordinator.apis import GROUP_APIS
from groupkeeper.coordinator.commit import PreparedCommit

CLIENT_REQUESTS: list[Any] = [r for r in GROUP_APIS if r not in (PreparedCommit, ListOfGroups)]
"""Those that clients send; the others are pieces of them."""
