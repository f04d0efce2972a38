"""The documentation of topic configs."""

from groupkeeper.apis.topic_config_docs import DOCUMENTATION
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES, TABLE


def test_configs_that_act_are_documented_and_no_others() -> None:
    assert set(DOCUMENTATION) <= set(TABLE)
    assert set(DOCUMENTATION) == {
        "cleanup.policy",
        "delete.retention.ms",
        "index.interval.bytes",
        "max.compaction.lag.ms",
        MAX_MESSAGE_BYTES,
        "message.timestamp.after.max.ms",
        "message.timestamp.before.max.ms",
        "message.timestamp.type",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "retention.bytes",
        "retention.ms",
        "segment.bytes",
        "segment.index.bytes",
        "segment.ms",
    }
