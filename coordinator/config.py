"""Settings and limits that decisions depend on; the application loads and passes them."""

from dataclasses import dataclass
from typing import Final

from groupkeeper.coordinator.policy import OFF, Policy

NEW_MEMBER_JOIN_TIMEOUT_MS: Final = 300_000
"""How long a member may wait for its first join phase to end. Fixed in Kafka, too (KAFKA-7610)."""

MAX_PENDING_MEMBERS: Final = 10_000
"""How many member ids of a partition may be pending (KIP-394): handed out, but not yet used in a
JoinGroup. Beyond that the oldest is dropped. Each takes up to a kilobyte, for as long as its
client's timeout says."""

MAX_PROTOCOLS: Final = 100
"""How many protocols a member may offer; clients offer two or three."""

METADATA_RATIO: Final = 4
"""Factor of `message.max.bytes` that bounds the metadata of a group's members for all their
protocols; the metadata of the elected protocol has to fit into one message."""


@dataclass(frozen=True, slots=True)
class GroupConfig:
    """Group settings under Kafka's names, with Kafka's defaults. Times are milliseconds."""

    initial_rebalance_delay_ms: int = 3_000
    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    """Compared with the length in UTF-16 units, as Kafka does, not with encoded bytes."""
    offsets_retention_ms: int = 7 * 24 * 3_600_000
    offsets_retention_check_interval_ms: int = 600_000
    message_max_bytes: int = 1_048_588
    max_groups: int = 1_000_000
    """The most groups of one partition; more are refused."""
    policy: Policy = OFF
    """Of groups whose own configs do not say otherwise."""

    @property
    def max_metadata_bytes(self) -> int:
        """The limit for all members of a group and all their protocols."""
        return METADATA_RATIO * self.message_max_bytes
