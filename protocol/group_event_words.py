"""Words for the causes in group events: the meaning, advice, and the picture of each.

`CODES` has the triggers of changes, `LIKELY` the probable reasons behind them. Both are data for
docs/events.md, pictures, and commands that explain a rebalance; the codes are part of the stored
format. A server imports none of this at its start.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FAMILIES: Final[Mapping[str, str]] = {
    "E": "no heartbeat in time",
    "S": "application too slow",
    "R": "restarted",
    "L": "member left",
    "J": "member joined",
    "T": "topics changed, or rejoined",
    "F": "forced from outside",
    "?": "unknown",
}
"""Letter -> causes with one colour and texture: seventeen codes cannot be told apart by eye."""


@dataclass(frozen=True, slots=True)
class Word:
    """A code or a guess, in one sentence per field."""

    meaning: str
    advice: str
    """The remedy, with the setting to change, or the cost if nothing is wrong."""
    family: str = ""
    """Key of `FAMILIES`. The family of a guess overrides that of its code."""
    briefly: str = ""
    """Predicate after the name of the client that triggered it; empty if no client did."""


CODES: Final[Mapping[str, Word]] = {
    "member_joined": Word(
        "A new dynamic member joined.",
        "Nothing is wrong; members that start within `group.initial.rebalance.delay.ms` of the"
        " coordinator share the first rebalance, and wait for it.",
        family="J",
        briefly="joined as a new member",
    ),
    "static_member_joined": Word(
        "A member with an instance id that the group did not know joined.",
        "Nothing is wrong at the first start; if it comes again at each restart, restarts take"
        " longer than `session.timeout.ms`. A longer one avoids the rebalances, and leaves the"
        " member's partitions unread for as long as it is away.",
        family="J",
        briefly="joined with an instance id that the group did not have",
    ),
    "static_member_returned_changed": Word(
        "A static member restarted with protocols that elect another one.",
        "Set the same `partition.assignment.strategy` for all members.",
        family="R",
        briefly="restarted with other protocols or topics",
    ),
    "static_member_returned_unready": Word(
        "A static member restarted while the group was rebalancing.",
        "Restart members one after the other, each when the group is Stable again; no setting"
        " avoids the rebalance.",
        family="R",
        briefly="restarted during a rebalance",
    ),
    "subscription_changed": Word(
        "A member rejoined with other topics or protocols.",
        "Nothing is wrong if topics were added or the application changed; if it comes again and"
        " again, look for topics that come and go under the pattern of `subscribe`: no setting"
        " avoids it.",
        family="T",
        briefly="rejoined with other topics or protocols",
    ),
    "leader_rejoined": Word(
        "The leader sent JoinGroup again, unchanged, in a Stable group.",
        "The client's own reason, if it gave one, says why: partitions that came or went, or an"
        " application that enforced a rebalance; no setting avoids it.",
        family="T",
        briefly="rejoined as the leader",
    ),
    "member_rejoined": Word(
        "A member rejoined with the same topics and other user data.",
        "Nothing is wrong after partitions were revoked: a second rebalance (KIP-429) assigns them,"
        " and no setting avoids it.",
        family="T",
        briefly="rejoined with other user data",
    ),
    "metadata_changed": Word(
        "A member rejoined with other metadata, which is no subscription of a consumer: of Kafka"
        " Connect, Kafka Streams, or a format that the coordinator does not read.",
        "Nothing is wrong if connectors, tasks or the application changed: the client's own log"
        " says what did; no setting avoids it.",
        family="T",
        briefly="rejoined with other metadata",
    ),
    "rejoined_after_load": Word(
        "A member rejoined for the first time since the coordinator was loaded, unchanged as far as"
        " is stored. The log has only the elected protocol of a member, so that a rejoin with"
        " several protocols starts a rebalance, as in Apache Kafka.",
        "Nothing is wrong with the client: the restart of the coordinator made its rejoin a"
        " rebalance; no setting avoids it.",
        family="F",
        briefly="rejoined for the first time since the coordinator was loaded",
    ),
    "member_left": Word(
        "A member sent LeaveGroup for itself.",
        "Nothing is wrong at a shutdown. With a `group.instance.id` a restart within"
        " `session.timeout.ms` needs no rebalance, and nobody reads the member's partitions"
        " meanwhile: that pays for restarts of a few seconds.",
        family="L",
        briefly="left",
    ),
    "member_removed_by_admin": Word(
        "Another client removed the member with LeaveGroup.",
        "Ask whoever runs the client in `cause.who`: no setting avoids it.",
        family="F",
        briefly="removed members",
    ),
    "session_expired": Word(
        "No heartbeat came within the member's session timeout.",
        "Find what stopped or paused the process, or cut its network. A `session.timeout.ms` above"
        " a pause avoids the rebalance; partitions of members that end are then unread for longer.",
        family="E",
        briefly="sent no heartbeat in time",
    ),
    "join_timeout": Word(
        "A member did not rejoin within the rebalance timeout.",
        "Find what ended or paused the process; if it still sent heartbeats, process less between"
        " two calls of poll: lower `max.poll.records`, where the client has it.",
        family="S",
        briefly="did not rejoin within the rebalance timeout",
    ),
    "sync_timeout": Word(
        "A member joined and sent no SyncGroup within the rebalance timeout.",
        "Find what stopped the process between joining and the assignment: `max.poll.interval.ms`,"
        " which is the rebalance timeout of most clients, had passed.",
        family="S",
        briefly="did not ask for its assignment within the rebalance timeout",
    ),
    "pending_member_expired": Word(
        "A client was given a member id and did not join with it within its session timeout.",
        "Find out whether the client ended in its first seconds, or cannot reach the coordinator;"
        " the id is kept for `session.timeout.ms`.",
        family="E",
        briefly="did not join with the id that it was given",
    ),
    "group_shrunk": Word(
        "The group has more members than it may have.",
        "Raise `group.max.size` of the coordinator, or run fewer members.",
        family="F",
    ),
    "assignment_lost": Word(
        "The leader's assignments could not be stored: too large for a record or for the memory of"
        " all members.",
        "Raise `message.max.bytes` of the coordinator, or split the group.",
        family="F",
    ),
    "operator": Word(
        "An operator forced the rebalance: a test of a consumer, in which the broker runs.",
        "Nothing is wrong; no setting avoids it.",
        family="F",
        briefly="forced a rebalance",
    ),
    "seat_expired": Word(
        "A member was lost, its partitions were reserved, and nobody came back for them in time.",
        "Nothing is wrong if the member ended for good: its partitions stood still for"
        " `classic.scheduled.rebalance.max.delay.ms` of the group, which a shorter one saves.",
        family="E",
        briefly="did not come back while its partitions were reserved",
    ),
    "seat_revoked": Word(
        "The leader's plan took partitions from a lost member and gave them to nobody yet: the"
        " second rebalance of an incremental assignor (KIP-429), which a lost member cannot ask"
        " for.",
        "Nothing is wrong: only partitions that move stand still; no setting avoids it.",
        family="T",
    ),
    "window_over": Word(
        "Newcomers waited without partitions for others, and get some now.",
        "Nothing is wrong: they share one rebalance, as `classic.scale.up.window.ms` or"
        " `classic.rebalance.min.interval.ms` of the group says.",
        family="J",
    ),
    "expected_complete": Word(
        "All members that were expected (`classic.expected.instance.ids` of the group) have come,"
        " and get partitions.",
        "Nothing is wrong: they share one rebalance; no setting avoids it.",
        family="J",
    ),
    "expected_missing": Word(
        "Not all members that were expected (`classic.expected.instance.ids` of the group) have"
        " come within `classic.expected.max.wait.ms`; the others get partitions.",
        "Start those that are missing, or remove their ids from `classic.expected.instance.ids`.",
        family="J",
    ),
    "topics_changed": Word(
        "A topic of the group has more or fewer partitions than before, which the coordinator"
        " noticed (`classic.metadata.watch` of the group).",
        "Nothing is wrong; no setting avoids it.",
        family="T",
    ),
    "policy_changed": Word(
        "More or fewer members get partitions than before: `classic.target.group.size` of the group"
        " was changed.",
        "Nothing is wrong; no setting avoids it.",
        family="F",
    ),
}
"""Code of a cause -> meaning and advice."""

LIKELY: Final[Mapping[str, Word]] = {
    "max_poll_exceeded": Word(
        "The application did not call poll within `max.poll.interval.ms`, so its client left. Of a"
        " client that gives no reason this is a guess, made when just that time has passed since"
        " its last commit: an idle consumer that is closed then looks the same. Or it was not heard"
        " to commit for that time, left, and came back on the same connection.",
        "Process less between two calls of poll: lower `max.poll.records`, where the client has it."
        " A longer `max.poll.interval.ms` lets the others wait as long in a rebalance.",
        family="S",
        briefly="did not call poll in time and left",
    ),
    "shutdown": Word(
        "The client was closed or unsubscribed.",
        "Nothing is wrong. With a `group.instance.id` a restart within `session.timeout.ms` needs"
        " no rebalance, and nobody reads the member's partitions meanwhile: that pays for restarts"
        " of a few seconds.",
        briefly="was closed or unsubscribed",
    ),
    "crash_or_network": Word(
        "The process ended, was paused, or was cut off: nothing came from it any more.",
        "If its connection was closed, look for a crash or a kill; if it stayed open, for a pause"
        " or a network that drops packets. A `session.timeout.ms` above a pause avoids the"
        " rebalance; partitions of members that end are then unread for longer.",
    ),
    "slow_member": Word(
        "The client sent heartbeats to the end, but its application did not come back to poll.",
        "Process less between two calls of poll: lower `max.poll.records`, where the client has it."
        " A longer `max.poll.interval.ms` lets the others wait as long in a rebalance.",
        family="S",
        briefly="did not come back to poll in time",
    ),
    "coordinator_stalled": Word(
        "The coordinator did not answer for a time, as its process stood still, its log could not"
        " be written, or it was loaded: clients without an answer give up and join anew.",
        "Find what stopped the coordinator, its disk or its machine; no setting of the consumers"
        " is wrong.",
        family="F",
        briefly="got no answer from the coordinator in time",
    ),
    "partitions_changed": Word(
        "The client said that its metadata has changed, as when partitions or topics came or went.",
        "Nothing is wrong if topics changed; if they exist before consumers start, no setting is"
        " needed.",
        family="T",
        briefly="rejoined as partitions came or went",
    ),
    "rebalance_enforced": Word(
        "The client said that its user or application enforced the rebalance.",
        "Nothing is wrong: the application asked for it, and no setting avoids it.",
        family="F",
        briefly="enforced a rebalance",
    ),
    "probing_rebalance": Word(
        "The client said that Kafka Streams had scheduled it: to look whether standby tasks have"
        " caught up, or to move tasks that have.",
        "Nothing is wrong: it comes every `probing.rebalance.interval.ms` of Kafka Streams until"
        " tasks are where they should be.",
        family="T",
        briefly="started a probing rebalance",
    ),
    "partitions_revoked": Word(
        "The member gave up partitions that another member gets now: the second rebalance of an"
        " incremental assignor (KIP-429).",
        "Nothing is wrong: only partitions that move stand still; no setting avoids it.",
        family="T",
        briefly="rejoined after it gave up partitions",
    ),
    "config_changed": Word(
        "A worker of Kafka Connect has read a newer configuration: connectors or tasks were added,"
        " removed or changed.",
        "Nothing is wrong if somebody changed connectors; the worker's own log says which; no"
        " setting avoids it.",
        family="T",
        briefly="has read a newer configuration",
    ),
    "taken_over": Word(
        "Another client took the place of a static member that still ran: its connection was open,"
        " and it had been heard of shortly before.",
        "Nothing is wrong if the old client was about to end; if both run, give each a"
        " `group.instance.id` of its own.",
        family="R",
        briefly="took the place of a running client",
    ),
    "duel": Word(
        "Two running clients have the same instance id and replace each other: at least two that"
        " were replaced had just been heard of, or were heard of afterwards.",
        "Give each client a `group.instance.id` of its own.",
        family="R",
        briefly="fought over its instance id",
    ),
    "rolling_restart": Word(
        "Members are restarted one after the other: at least two, told apart by instance id, or by"
        " host and client id.",
        "With a `group.instance.id` and a `session.timeout.ms` above the time that a restart takes,"
        " restarts need no rebalance, and nobody reads the member's partitions meanwhile: that"
        " pays for restarts of a few seconds.",
        family="R",
        briefly="was restarted",
    ),
}
"""Probable reason behind a code -> meaning and advice."""

EVIDENCE: Final[Mapping[str, str]] = {
    "silent_ms": "how long nothing had come from the member",
    "session_timeout_ms": "the member's session timeout",
    "rebalance_timeout_ms": "the rebalance timeout that ended",
    "heartbeats": "heartbeats of the member since its last JoinGroup or SyncGroup",
    "heartbeat_interval_ms": "their mean distance",
    "connection": "the member's at its end: `open` or `closed`; null if unknown",
    "idle_ms": "since the member last committed, or was assigned partitions",
    "away_ms": "how long the member was gone that came back",
    "same_connection": "true if the member left and came back on one connection: no restart",
    "waited_ms": "how long was waited for the member",
    "revoked": "partitions that the member owned before and does not name any more",
    "instances": "how many members were replaced, or left and came back; each counts once",
    "replacements": "how often this instance id changed hands",
    "within_ms": "the time in which that happened",
    "hosts": "addresses of the two clients",
    "clients": "client ids of the two clients",
    "old_connection": "connection of the replaced client: `open`, or `closed` before; null if"
    " unknown",
    "config_offsets": "offsets in the topic of configurations that the worker had read before, and"
    " has read now",
    "old_host": "address of the replaced client",
    "old_client": "client id of the replaced client",
    "stalled": "what stood still: `process` or `log`; `load`: the coordinator was loaded, and how"
    " long before nobody answered is not known",
    "stalled_ms": "how long the coordinator stood still",
    "stall_ended_ms": "how long before that was over; 0 while it lasts",
    "reserved_ms": "how long the partitions of a lost member had been reserved; 0 if its process"
    " was back before the loss was noticed",
    "lost_by": "code of the cause by which the member was lost",
    "partitions": "how many partitions were reserved",
    "topic": "the topic whose number of partitions has changed",
    "partitions_before": "how many partitions it had",
    "partitions_now": "how many it has",
    "newcomers": "how many newcomers waited",
    "missing": "instance ids that were expected and have not come, the first 20",
    "count": "how many have not come",
    "active": "how many members had partitions",
    "wanted": "how many shall have some",
    "limit": "the limit that was met",
    "injected": "true if a test's fault or time control did it",
    "owned": "true if the cause is inferred from records, and members stated what they owned",
    "reloaded": "true if it is inferred, and the group's coordinator changed since the record"
    " before",
    "stopped_first": "true if it is inferred from who stopped committing while all others went on",
}
"""Fields of `evidence` -> meaning; a cause has those that apply."""
