"""Keys of settings that hold for one listener: `listener.name.<name>.<key>`, some of them also for
one of its SASL mechanisms: `listener.name.<name>.<mechanism>.<key>`. They precede the general ones.

Imported when there is one. Source: Kafka's `ListenerName`; `valuesWithPrefixOverride` of its
`AbstractConfig`; `ConfigurationUtils` of its OAuth classes; KIP-103, KIP-86.
"""

from collections.abc import Mapping
from typing import Final

from groupkeeper.settings.sasl_settings import JAAS, LIFETIME, MECHANISMS, OAUTHBEARER
from groupkeeper.settings.setting import Setting

OF_LISTENERS: Final = (LIFETIME, "sasl.", "ssl.")
"""What the keys begin with that may be given for one listener."""
_MECHANISMS: Final = frozenset(each.lower() for each in MECHANISMS)
_OF_OAUTH: Final = f"sasl.{OAUTHBEARER.lower()}."


def of_listener(key: str, table: Mapping[str, Setting]) -> tuple[str, str, Setting | None]:
    """Return listener, mechanism (or "") and row of a key without `listener.name.`; no row if there
    is none. The name, in lower case, may have dots.
    """
    name, rest = "", key
    while "." in rest:
        part, _, rest = rest.partition(".")
        name = f"{name}.{part}" if name else part
        mechanism, _, inner = rest.partition(".")
        row = _of_mechanism(mechanism, inner, table) if mechanism in _MECHANISMS else None
        if row is not None:
            return name, mechanism, row
        if rest.startswith(OF_LISTENERS) and rest in table:
            return name, "", table[rest]
    return "", "", None


def _of_mechanism(mechanism: str, key: str, table: Mapping[str, Setting]) -> Setting | None:
    """Return the row of a key that is given for a mechanism; None if it has none there."""
    if key == JAAS.key:
        return JAAS
    is_of_oauth = mechanism == OAUTHBEARER.lower() and key.startswith(_OF_OAUTH)
    return table.get(key) if key == LIFETIME or is_of_oauth else None
