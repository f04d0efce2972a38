"""Every attack there is, by name, in the order in which they are played."""

from collections.abc import Mapping

from tests.chaos.attacks import (
    connections,
    exhaustion,
    floods,
    fuzz_cut,
    group_requests,
    handshakes,
    hostile,
    login_floods,
    process,
    sizes,
    slow_disk,
    stops,
    topic_requests,
    web,
)
from tests.chaos.target import Attack

_MODULES = (
    hostile,
    connections,
    handshakes,
    login_floods,
    group_requests,
    topic_requests,
    exhaustion,
    floods,
    sizes,
    slow_disk,
    process,
    stops,
    web,
    fuzz_cut,
)

ATTACKS: Mapping[str, Attack] = {
    attack.name: attack for module in _MODULES for attack in module.ATTACKS
}
FAMILIES = tuple(dict.fromkeys(attack.family for attack in ATTACKS.values()))
