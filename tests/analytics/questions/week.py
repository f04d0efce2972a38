"""Tables in which every question finds something: several groups, in no order."""

import random

from tests.analytics.questions.made import HOUR, MINUTE, rounds, table

GROUPS = ("billing", "orders", "mail \u00fc")


def week():
    """Name -> table."""
    dice = random.Random(15)
    made = {
        "rounds": rounds(*_rounds()),
        "ownership": table("ownership", *_ownership()),
        "sessions": table("sessions", *_sessions()),
        "refusals": table("refusals", *_refusals()),
        "commit_minutes": table("commit_minutes", *_commits()),
        "lag": table("lag", *_lag()),
        "log_ends": table("log_ends", *_ends()),
        "epochs": table("epochs", *_epochs()),
        "coverage": table(
            "coverage",
            {"from": 0, "until": 40 * HOUR},
            {"log": "__consumer_offsets", "from": 0, "known_from": 2 * MINUTE, "until": 40 * HOUR},
        ),
    }
    return {name: _mixed(dice, each) for name, each in made.items()}


def _mixed(dice, made):
    order = list(range(made.num_rows))
    dice.shuffle(order)
    return made.take(order)


def _source(number):
    return {"source": "log" if number else "events", "confidence": 1.0 - number / 10}


def _rounds():
    for number, group in enumerate(GROUPS):
        for each in range(30):
            # A storm of ten, and one round an hour.
            at = each * 50_000 if each < 10 else each * HOUR
            yield {
                "group": group,
                "started": at + number,
                "cause": ("session_expired", "member_left", "member_rejoined")[each % 3],
                "by_client_id": f"c{each % 4}",
                "by_host": f"10.0.0.{each % 4}" if each % 4 else None,
                "by_software": f"librdkafka 2.{each % 2}",
                "generation": each,
                "unowned_ms": each,
                "protocol": "range",
                "moved": 3,
                "partitions": 4,
                "last_client_id": f"c{each % 2}",
                "held_ms": each * 100,
                **_source(number),
            }


def _ownership():
    for number, group in enumerate(GROUPS):
        for partition in range(3):
            yield {
                "group": group,
                "topic_partition": partition,
                "from": 0,
                "until": 10 * HOUR,
                "member": f"m{partition % 2}",
                **_source(number),
            }
        yield {"group": group, "from": 10 * HOUR, "is_owned": False, **_source(number)}


def _sessions():
    for number, group in enumerate(GROUPS):
        for each in range(3):
            yield {"group": group, "member": f"m{each}", "from": 0, **_source(number)}
        for each in range(8):
            yield {
                "group": group,
                "member": f"duel{each}",
                "instance": "i",
                "host": f"10.0.0.{each % 2}",
                "from": HOUR + each * 10_000,
                "until": HOUR + each * 10_000 + 10_000,
                "began_as": "replaced",
                "ended_by": "replaced",
                "away_ms": each * 1_000,
                **_source(number),
            }

    lost = {"until": HOUR, "ended_by": "session_expired", "silent_ms": 45_000}
    yield {"group": "down", "member": "last", "from": 0, **lost}


def _refusals():
    for group in GROUPS:
        for each in range(4):
            yield {
                "group": group,
                "member": f"duel{each % 2}",
                "instance": "i",
                "api": ("OffsetCommit", "Heartbeat")[each % 2],
                "error": "FENCED_INSTANCE_ID",
                "time": 2 * HOUR + each,
                "first": 2 * HOUR + each,
            }


def _commits():
    for group in GROUPS:
        for each in range(600):
            for partition in range(3):
                if partition != 1 or not 100 <= each < 160:  # m1 is silent for an hour
                    yield {
                        "group": group,
                        "topic_partition": partition,
                        "minute": each * MINUTE,
                        "commits": 2 if each < 300 else 8,
                        "first_offset": each,
                        "last_offset": each,
                        "first_time": each * MINUTE,
                        "last_time": each * MINUTE + 1_000,
                    }


def _lag():
    for group in GROUPS:
        for each in range(50):
            yield {"group": group, "time": each * MINUTE, "lag": each, "lag_ms": each * 10}


def _ends():
    for group in (*GROUPS, "down"):
        for each in range(2):
            yield {
                "group": group,
                "topic_partition": each + 1,
                "commit_time": HOUR,
                "committed_offset": 5,
                "end_offset": 5 + each,
                "end_time": 2 * HOUR,
                "lag": each,
                "waiting_since": 2 * HOUR if each else None,
            }


def _epochs():
    for partition in range(2):
        for each in range(3):
            yield {
                "partition": partition,
                "epoch": each,
                "node": each,
                "from": each * HOUR,
                "until": each * HOUR,
                "first_offset": each * 10,
                "last_offset": each * 10 + 10,
            }
