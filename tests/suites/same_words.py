"""What kafka-consumer-groups and our commands are asked alike, and how what they say is compared.

Data and pure functions, nothing runs here. Rows are compared as sets of cells: Kafka's are in no
order.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

_HEADINGS = "GROUP "
_NOISE = re.compile(
    r"^(\s+at |Caused by|WARN|SLF4J|\[.*WARN|java\.|org\.|.*Exception:)|^\s*\.\.\. \d+ more"
)

Rows = frozenset[tuple[str, ...]]


@dataclass(slots=True, frozen=True)
class Same:
    """`theirs` are the words of Kafka's tool, `ours` those of our command."""

    theirs: str
    ours: str

    @property
    def name(self) -> str:
        return f"groups {self.ours}"


@dataclass(slots=True, frozen=True)
class Refusal(Same):
    """Both refuse: `told` and `says` are expressions that are found in what they say."""

    told: str
    says: str


def tables(lines: Iterable[str]) -> Rows:
    """The rows of all tables in an output, each with its headings in front."""
    found = set()
    headings: tuple[str, ...] = ()
    for line in lines:
        if line.startswith(_HEADINGS):
            headings = tuple(line.replace("COORDINATOR (ID)", "COORDINATOR ID").split())
        elif not line.strip():
            headings = ()
        elif headings:
            found.add((*headings, *line.split()))
    return frozenset(found)


def words(lines: Iterable[str]) -> Rows:
    """The lines of an output that has no headings, without stack traces and warnings."""
    plain = (line for line in lines if line.strip() and not _NOISE.match(line))
    return frozenset(tuple(line.split()) for line in plain)


def rows(lines: list[str]) -> Rows:
    """What an output tells."""
    return tables(lines) or words(lines)


def _views() -> Iterable[Same]:
    for ours in ("", " --state", " --type --state"):
        yield Same(f"--list{ours}", f"list{ours}")
    for ours in ("--state stable", "--state Empty,PreparingRebalance", "--type classic"):
        yield Same(f"--list {ours}", f"list {ours}")
    for view in ("", " --offsets --verbose", " --members", " --members --verbose", " --state"):
        yield Same(f"--describe --all-groups{view}", f"describe --all-groups{view}")
    some = "--group pair --group emptied --state --verbose"
    yield Same(f"--describe {some}", f"describe {some}")


VIEWS = tuple(_views())
"""Nothing is changed."""
VIEWS_OF_MODERN = tuple(
    Same(f"--describe --group modern {view}", f"describe --group modern {view}")
    for view in ("", "--members --verbose", "--state --verbose")
)
"""Of the group of the new protocol."""

REFUSALS = (
    Refusal("--describe --group nobody", "describe --group nobody",
            "GroupIdNotFoundException: Group nobody not found", "'nobody' does not exist"),
    Refusal("--delete --group pair", "delete --group pair",
            "GroupNotEmptyException", "Stable with 2 members: stop them first"),
    Refusal("--delete --group nobody", "delete --group nobody",
            "GroupIdNotFoundException", "'nobody' was not deleted: it does not exist"),
    Refusal("--list --state great", "list --state great",
            "Invalid state list 'great'", "'great' is not one of"),
    Refusal("--list --type share", "list --type share",
            "Invalid types list 'share'", "'share' is not one of"),
    Refusal("--describe", "describe", "takes one of these options", "Select groups with"),
    Refusal("--describe --all-groups --members --state",
            "describe --all-groups --members --state",
            "takes at most one of these options", "Only one of --offsets"),
)  # fmt: skip
"""Nothing is changed, because both refuse."""

CHANGES = (
    "groups remove-members --group connect-sink --instance-id work* --reason gone --execute",
    "groups delete --group emptied --group connect-sink",
)
"""Words of ours; Kafka's tools have to see after each what we see."""

SEEN_AFTER_CHANGES = (
    Same("--list --state", "list --state"),
    Same("--describe --all-groups --verbose", "describe --all-groups --verbose"),
)
