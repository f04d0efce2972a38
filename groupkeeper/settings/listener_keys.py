"""Keys of settings that hold for one listener: `listener.name.<name>.<key>`, some of them also for
one of its SASL mechanisms: `listener.name.<name>.<mechanism>.<key>`. They precede the general ones.

Imported when there is one. Source: Kafka's `ListenerName`; `valuesWithPrefixOverride` of its
`AbstractConfig`; KIP-103, KIP-86.
"""

from collections.abc import Mapping
from typing import Final

from groupkeeper.settings.sasl_settings import JAAS, LIFETIME, MECHANISMS
from groupkeeper.settings.setting import Setting

OF_LISTENERS: Final = (LIFETIME, "sasl.", "ssl.")
"""What the keys begin with that may be given for one listener."""
_MECHANISMS: Final = frozenset(each.lower() for each in MECHANISMS)


def of_listener(key: str, table: Mapping[str, Setting]) -> tuple[str, str, Setting | None]:
    """Return listener, mechanism (or "") and row of a key without `listener.name.`; no row if there
    is none. The name, in lower case, may have dots.
    """
    name, rest = "", key
    while "." in rest:
        part, _, rest = rest.partition(".")
        name = f"{name}.{part}" if name else part
        mechanism, _, inner = rest.partition(".")
        if mechanism in _MECHANISMS and inner in (JAAS.key, LIFETIME):
            return name, mechanism, JAAS if inner == JAAS.key else table[LIFETIME]
        if rest.startswith(OF_LISTENERS) and rest in table:
            return name, "", table[rest]
    return "", "", None
