"""Policies of a group: its configs let the coordinator do more than Apache Kafka. All are off by
default, and then nothing differs from Kafka.

Pure: settings and what they allow. Who is kept, and for whom, is in `coordinator.seats`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeVar

from groupkeeper.protocol.group_events import CauseCode

GRACE: Final = "classic.scheduled.rebalance.max.delay.ms"
RESERVE_ON: Final = "classic.reserve.on"
SEAT_MATCH: Final = "classic.seat.match"
WINDOW: Final = "classic.scale.up.window.ms"
MIN_INTERVAL: Final = "classic.rebalance.min.interval.ms"
TARGET_SIZE: Final = "classic.target.group.size"
EXPECTED_IDS: Final = "classic.expected.instance.ids"
EXPECTED_WAIT: Final = "classic.expected.max.wait.ms"
UNEXPECTED: Final = "classic.unexpected.members"
LEADER: Final = "classic.leader.preference"
REMOTE_ASSIGNOR: Final = "classic.remote.assignor"
STEP_PARTITIONS: Final = "classic.rebalance.step.partitions"
STEP_INTERVAL: Final = "classic.rebalance.step.interval.ms"
WATCH: Final = "classic.metadata.watch"
ASSIGNORS: Final = ("", "uniform")

MAX_GRACE_MS: Final = 1_800_000
"""The longest time for which partitions may stand still for a member that is lost, or newcomers may
be without partitions."""

SeatMatch = Literal["client.id,host", "client.id", "any"]
"""What a newcomer must have in common with a lost dynamic member to get its seat."""
BY_CLIENT_AND_HOST: Final[SeatMatch] = "client.id,host"
BY_CLIENT: Final[SeatMatch] = "client.id"
ANY: Final[SeatMatch] = "any"
MATCHES: Final[tuple[SeatMatch, ...]] = (BY_CLIENT_AND_HOST, BY_CLIENT, ANY)

Unexpected = Literal["allow", "standby", "refuse"]
"""What becomes of newcomers whose instance id is not expected."""
ALLOW: Final[Unexpected] = "allow"
STAND_BY: Final[Unexpected] = "standby"
REFUSE: Final[Unexpected] = "refuse"

LeaderPreference = Literal["first", "longest", "static"]
"""Who leads: whom Kafka would choose, the member that is there for longest, or a static one."""
FIRST: Final[LeaderPreference] = "first"
LONGEST: Final[LeaderPreference] = "longest"
STATIC: Final[LeaderPreference] = "static"
UNEXPECTEDS: Final = (ALLOW, STAND_BY, REFUSE)
LEADERS: Final = (FIRST, LONGEST, STATIC)

LOST: Final = "lost"
LEFT: Final = "left"

RESERVED: Final[Mapping[CauseCode, str]] = {
    CauseCode.SESSION_EXPIRED: LOST,
    CauseCode.MEMBER_LEFT: LEFT,
}
"""Cause of a removal -> the word of `classic.reserve.on`. Other removals reserve nothing."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The policies of a group."""

    grace_ms: int = 0
    """How long the seat of a lost member is reserved; 0 for not at all."""
    reserve_on: frozenset[str] = frozenset({LOST})
    seat_match: SeatMatch = BY_CLIENT_AND_HOST
    window_ms: int = 0
    """How long newcomers of a Stable group wait for more of them; 0 for not at all."""
    min_interval_ms: int = 0
    """The least time between the starts of two rebalances, as far as members can wait."""
    target_size: int = 0
    """How many members get partitions; 0 for all."""
    expected: frozenset[str] = frozenset()
    """Instance ids that start and end together; empty: nobody is expected."""
    expected_wait_ms: int = 60_000
    """How long those that are there wait for the others."""
    unexpected: Unexpected = ALLOW
    leader: LeaderPreference = FIRST
    remote_assignor: str = ""
    """The server's assignor; empty if leaders assign."""
    step_partitions: int = 0
    """How many partitions the server moves at a time; 0 for all."""
    step_interval_ms: int = 1_000
    """The least time between the begins of two steps."""
    watch: bool = False
    """Rebalance when a topic of the group gets more or fewer partitions, and not when a leader
    rejoins without that."""

    @property
    def is_on(self) -> bool:
        """Whether the coordinator does anything that Kafka does not."""
        return self.grace_ms > 0 or self.plans or self.watch or self.leader != FIRST

    @property
    def plans(self) -> bool:
        """Whether the coordinator decides which members get partitions."""
        waits = self.window_ms > 0 or self.min_interval_ms > 0 or bool(self.expected)
        return waits or self.target_size > 0 or bool(self.remote_assignor)

    def on(self) -> frozenset[str]:
        """Return the names of the configs that differ from off."""
        off = OFF.as_configs()
        return frozenset(name for name, text in self.as_configs().items() if text != off[name])

    def reserves(self, code: CauseCode) -> bool:
        """Return whether a member that is removed for this cause keeps its seat for a while."""
        return RESERVED.get(code) in self.reserve_on

    def as_configs(self) -> dict[str, str]:
        """Return the policies as configs of a group."""
        return {
            EXPECTED_IDS: ",".join(sorted(self.expected)),
            EXPECTED_WAIT: str(self.expected_wait_ms),
            LEADER: self.leader,
            WATCH: str(self.watch).lower(),
            MIN_INTERVAL: str(self.min_interval_ms),
            STEP_INTERVAL: str(self.step_interval_ms),
            STEP_PARTITIONS: str(self.step_partitions),
            REMOTE_ASSIGNOR: self.remote_assignor,
            RESERVE_ON: ",".join(sorted(self.reserve_on)),
            WINDOW: str(self.window_ms),
            GRACE: str(self.grace_ms),
            SEAT_MATCH: self.seat_match,
            TARGET_SIZE: str(self.target_size),
            UNEXPECTED: self.unexpected,
        }


OFF: Final = Policy()
_NAMES: Final = OFF.as_configs().keys()


def policy_of(configs: Mapping[str, str], default: Policy) -> Policy | None:
    """Return the policy of a group with these configs, which were checked; None if all is off.
    `default`: the broker's, for what the group does not set.
    """
    found = default.as_configs() | {name: configs[name] for name in _NAMES & configs.keys()}
    policy = Policy(
        int(found[GRACE]),
        words_of(found[RESERVE_ON]),
        one_of(MATCHES, found[SEAT_MATCH]),
        int(found[WINDOW]),
        int(found[MIN_INTERVAL]),
        int(found[TARGET_SIZE]),
        words_of(found[EXPECTED_IDS]),
        int(found[EXPECTED_WAIT]),
        one_of(UNEXPECTEDS, found[UNEXPECTED]),
        one_of(LEADERS, found[LEADER]),
        found[REMOTE_ASSIGNOR],
        int(found[STEP_PARTITIONS]),
        int(found[STEP_INTERVAL]),
        found[WATCH].strip().lower() == "true",
    )
    return policy if policy.is_on else None


def words_of(text: str) -> frozenset[str]:
    """Return the words of a list with commas between."""
    return frozenset(each.strip() for each in text.split(",") if each.strip())


_Choice = TypeVar("_Choice", bound=str)


def one_of(choices: Sequence[_Choice], text: str) -> _Choice:
    """Return the choice of this name, which was checked; the order of its parts does not count."""
    return next(each for each in choices if words_of(each) == words_of(text))
