"""Accepted requests - answers = tokens held. Checked from outside, on a whole server.

A token is held by a member, by a reply gate (perhaps as a part of a split request), or by a Fetch
that waits. Requests of the data plane that wait for its thread are not looked for: ask in between.
"""

from typing import Any

from groupkeeper.apis.gather import MappedReply, PartReply
from groupkeeper.connections.call import Call
from groupkeeper.server.server import Server


def check_accounts(server: Server) -> None:
    """Every request under way is held exactly once, and nothing else is held by a live client."""
    waiting = [
        connection._call
        for connection in server.listener.connections.opened
        if connection._call is not None and connection._transport is not None
    ]
    held = [token for token in _held(server) if token.sender._transport is not None]
    assert len(held) == len(set(held)), "a request is held twice"
    assert set(held) == set(waiting), "a request is under way and its token is lost, or the reverse"


def _held(server: Server) -> list[Call]:
    tokens: list[Any] = [fetch._reply_to for fetch in server.topics.waiting_fetches]
    tokens += [token for token, _ in server.group_partitions._replies.waiting]
    for driver in server.group_partitions:
        partition = driver._partition
        for group in partition.groups.values():
            for member in group.members.values():
                tokens += [t for t in (member.awaiting_join, member.awaiting_sync) if t is not None]
        tokens += [deletion.reply_to for deletion in partition.groups.deletions.values()]
        tokens += [token for _, parked, _ in partition.gate._parked for token, _ in parked]
    return list(dict.fromkeys(_request_of(token) for token in tokens))


def _request_of(token: Any) -> Call:
    """A part of a split request stands for the whole."""
    while isinstance(token, PartReply | MappedReply):
        token = token.gather.reply_to if isinstance(token, PartReply) else token.reply_to
    return token
