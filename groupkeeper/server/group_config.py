"""Derives the coordinator's configuration from the settings of a server."""

from typing import Final

from groupkeeper.coordinator.config import GroupConfig
from groupkeeper.coordinator.policy import LEADERS, MATCHES, Policy, one_of, words_of
from groupkeeper.settings.table import Settings

MAX_GROUPS: Final = 1_000_000
"""Maximum groups of a process, divided among its partitions. An empty group takes 1.3 KB."""


def group_config(settings: Settings) -> GroupConfig:
    return GroupConfig(
        initial_rebalance_delay_ms=settings.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=settings.group_max_size,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offsets_retention_check_interval_ms=settings.offsets_retention_check_interval_ms,
        message_max_bytes=settings.message_max_bytes,
        policy=Policy(
            settings.group_classic_scheduled_rebalance_max_delay_ms,
            words_of(settings.group_classic_reserve_on),
            one_of(MATCHES, settings.group_classic_seat_match),
            settings.group_classic_scale_up_window_ms,
            settings.group_classic_rebalance_min_interval_ms,
            settings.group_classic_target_group_size,
            remote_assignor=settings.group_classic_remote_assignor,
            step_partitions=settings.group_classic_rebalance_step_partitions,
            step_interval_ms=settings.group_classic_rebalance_step_interval_ms,
            watch=settings.group_classic_metadata_watch,
            leader=one_of(LEADERS, settings.group_classic_leader_preference),
        ),
        max_groups=-(-MAX_GROUPS // settings.offsets_topic_num_partitions),
    )
