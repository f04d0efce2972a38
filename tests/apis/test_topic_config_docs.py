"""The documentation of topic configs."""

from groupkeeper.apis.topic_config_docs import DOCUMENTATION, NO_EFFECT
from groupkeeper.topics.configs import MAX_MESSAGE_BYTES, TABLE


def test_every_config_is_documented_and_says_whether_it_acts() -> None:
    assert set(DOCUMENTATION) == set(TABLE)
    acting = {name for name, text in DOCUMENTATION.items() if not text.startswith(NO_EFFECT)}
    assert acting == {
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
