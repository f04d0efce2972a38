"""Changes of single configs, as AlterConfigs and IncrementalAlterConfigs ask for them.

Source: Kafka's `ConfigurationControlManager.incrementalAlterConfigResource`.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from groupkeeper.apis.broker_configs import AlterConfigOp, no_list
from groupkeeper.protocol.errors import ErrorCode
from groupkeeper.protocol.messages.incremental_alter_configs import ConfigOperation
from groupkeeper.protocol.wire import LONGEST_TEXT
from groupkeeper.topics import configs
from groupkeeper.topics.refusals import Refused

_TOO_LONG: Final = (
    "The configuration value cannot be added because it exceeds the maximum value size of "
    f"{LONGEST_TEXT} bytes."
)

ListDefault = Callable[[str], str | None]
"""Returns the default of a config that is a list; None for any other name."""


def applied(
    before: Mapping[str, str], ops: Sequence[AlterConfigOp], list_default: ListDefault
) -> dict[str, str]:
    """Return the configs after the changes, of which only the length is checked. Raises Refused."""
    after = dict(before)
    for op in ops:
        if op.edits_a_list:
            after[op.name] = _edited(op, before, list_default)
        elif op.value is not None and op.sets:
            after[op.name] = op.value
        else:
            after.pop(op.name, None)
    # A client cannot send a value that is too long, but it can append to a list.
    if any(len(after.get(op.name, "").encode()) > LONGEST_TEXT for op in ops):
        raise Refused(ErrorCode.INVALID_CONFIG, _TOO_LONG)
    return after


def _edited(op: AlterConfigOp, before: Mapping[str, str], list_default: ListDefault) -> str:
    """Return a list, by default the default's, with items added or removed."""
    default = list_default(op.name)
    if default is None:
        raise Refused(*no_list(op))
    items = configs.parts(before.get(op.name, default))
    given = configs.parts(op.value or "")
    if op.operation == ConfigOperation.SUBTRACT:
        return ",".join(_without(items, given))
    known = frozenset(items)
    return ",".join([*items, *(item for item in dict.fromkeys(given) if item not in known)])


def _without(items: Iterable[str], given: Iterable[str]) -> Iterator[str]:
    """Return the list without the given items; each removes its first occurrence, as in Kafka."""
    due = Counter(given)
    for item in items:
        if due[item]:
            due[item] -= 1
        else:
            yield item
