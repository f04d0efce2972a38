"""Policies of lives, drawn from a seed: each with its own frequency, and all together."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any, Final

from groupkeeper.coordinator.policy import LEADERS, LEFT, LOST, MATCHES, OFF, UNEXPECTEDS, Policy

INSTANCES: Final = ("I", "J", "K")
GRACES: Final = (6_000, 15_000, 40_000)
RESERVED_ON: Final = (frozenset({LOST}), frozenset({LEFT}), frozenset({LOST, LEFT}))


def _grace(random: Random) -> dict[str, Any]:
    return {
        "grace_ms": random.choice(GRACES),
        "reserve_on": random.choice(RESERVED_ON),
        "seat_match": random.choice(MATCHES),
    }


def _expected(random: Random) -> dict[str, Any]:
    return {
        "expected": frozenset(random.sample(INSTANCES, random.randrange(1, 4))),
        "expected_wait_ms": random.choice([0, 3_000, 10_000]),
        "unexpected": random.choice(UNEXPECTEDS),
    }


def _remote(random: Random) -> dict[str, Any]:
    return {
        "remote_assignor": "uniform",
        "step_partitions": random.choice([0, 1, 2]),
        "step_interval_ms": random.choice([0, 500, 2_000]),
    }


KINDS: Final[Mapping[str, tuple[float, Callable[[Random], dict[str, Any]]]]] = {
    "grace": (0.4, _grace),
    "target size": (0.35, lambda random: {"target_size": random.randrange(1, 5)}),
    "scale window": (0.25, lambda random: {"window_ms": random.choice([2_000, 5_000])}),
    "minimal interval": (0.2, lambda random: {"min_interval_ms": random.choice([5_000, 20_000])}),
    "expected members": (0.2, _expected),
    "uniform": (0.4, _remote),
    "watch": (0.3, lambda _: {"watch": True}),
    "leader preference": (0.3, lambda random: {"leader": random.choice(LEADERS[1:])}),
}
"""Name of a policy -> how often it is on, and what it says."""
_FIELDS: Final = {
    "grace": "grace_ms",
    "target size": "target_size",
    "scale window": "window_ms",
    "minimal interval": "min_interval_ms",
    "expected members": "expected",
    "uniform": "remote_assignor",
    "watch": "watch",
}


def drawn(random: Random) -> Policy:
    """A policy with at least one thing on besides grace."""
    while True:
        policy = OFF
        for often, draw in KINDS.values():
            if random.random() < often:
                policy = replace(policy, **draw(random))
        if policy.plans or policy.watch:
            return policy


def changed(policy: Policy, random: Random) -> Policy:
    """Another policy: one thing is set or unset, or all are drawn anew, or all are off."""
    chance = random.random()
    if chance < 0.1:
        return OFF
    if chance < 0.3:
        return drawn(random)
    _, draw = random.choice([*KINDS.values()])
    new = draw(random)
    if random.random() < 0.4:
        new = {each: getattr(OFF, each) for each in new}
    return replace(policy, **new)


def names(policy: Policy) -> list[str]:
    """What is on."""
    on = [name for name, each in _FIELDS.items() if getattr(policy, each)]
    return on + ["leader preference"] * (policy.leader != OFF.leader)
