"""What Kafka's tools and our commands are asked alike, and how what they say is compared.

Data and pure functions, nothing runs here. Rows are compared as sets of cells: Kafka's are in no
order.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

GROUPS, TOPICS = "groups", "topics"
_HEADINGS = ("GROUP ", "TOPIC ")
_NOISE = re.compile(
    r"^(\s+at |Caused by|WARN|SLF4J|\[.*WARN|java\.|org\.|.*Exception:)|^\s*\.\.\. \d+ more"
)
_ELR = re.compile(r"\s+(LastKnown)?Elr: ?\S*")
"""Of eligible leader replicas Metadata, which we ask, says nothing."""

Rows = frozenset[tuple[str, ...]]


@dataclass(slots=True, frozen=True)
class Same:
    """`theirs` are the words of Kafka's tool, `ours` those of our command."""

    tool: str
    theirs: str
    ours: str

    @property
    def name(self) -> str:
        return f"{self.tool} {self.ours}"


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
    plain = (_ELR.sub("", line) for line in lines if line.strip() and not _NOISE.match(line))
    return frozenset(tuple(re.split(r"[\t ]+|(?<=Configs: )", line.strip())) for line in plain)


def rows(lines: list[str]) -> Rows:
    """What an output tells."""
    return tables(lines) or words(lines)


def _views() -> Iterable[Same]:
    for ours in ("", " --state", " --type --state"):
        yield Same(GROUPS, f"--list{ours}", f"list{ours}")
    for ours in ("--state stable", "--state Empty,PreparingRebalance", "--type classic"):
        yield Same(GROUPS, f"--list {ours}", f"list {ours}")
    for view in ("", " --offsets --verbose", " --members", " --members --verbose", " --state"):
        yield Same(GROUPS, f"--describe --all-groups{view}", f"describe --all-groups{view}")
    some = "--group pair --group emptied --state --verbose"
    yield Same(GROUPS, f"--describe {some}", f"describe {some}")
    for words_ in ("--topic parcels", "--topic parcels:0,2 --topic receipts", "--all-topics"):
        for target in ("--to-earliest", "--to-latest", "--to-offset 5", "--to-current"):
            yield _reset(f"{words_} {target}")
    for target in (
        *("--shift-by 3", "--shift-by -50", "--to-offset 99", "--by-duration P1D"),
        *("--to-datetime 2001-01-01T00:00:00.000", "--to-datetime 2101-01-01T00:00:00.000Z"),
        "--to-current --export",
    ):
        yield _reset(f"--all-topics {target}")


def _reset(target: str) -> Same:
    asked = f"--group emptied {target} --dry-run"
    return Same(GROUPS, f"--reset-offsets {asked}", f"reset-offsets {asked}")


VIEWS = (
    *_views(),
    Same(TOPICS, "--list", "list"),
    Same(TOPICS, "--list --exclude-internal --topic .*s", "list --exclude-internal --topic .*s"),
    Same(TOPICS, "--describe --exclude-internal", "describe --exclude-internal"),
    Same(TOPICS, "--describe --topic parcels", "describe --topic parcels"),
    Same(TOPICS, "--describe --at-min-isr-partitions --topic parcels",
         "describe --at-min-isr-partitions --topic parcels"),
    Same(TOPICS, "--describe --unavailable-partitions", "describe --unavailable-partitions"),
)  # fmt: skip
"""Nothing is changed."""
VIEWS_OF_MODERN = tuple(
    Same(GROUPS, f"--describe --group modern {view}", f"describe --group modern {view}")
    for view in ("", "--members --verbose", "--state --verbose")
)
"""Of the group of the new protocol."""
EMPTY = VIEWS[-1:]
"""Those that have nothing to show."""

REFUSALS = (
    Refusal(GROUPS, "--describe --group nobody", "describe --group nobody",
            "GroupIdNotFoundException: Group nobody not found", "'nobody' does not exist"),
    Refusal(GROUPS, "--delete --group pair", "delete --group pair",
            "GroupNotEmptyException", "Stable with 2 members: stop them first"),
    Refusal(GROUPS, "--delete --group nobody", "delete --group nobody",
            "GroupIdNotFoundException", "'nobody' was not deleted: it does not exist"),
    Refusal(GROUPS, "--delete-offsets --group pair --topic parcels",
            "delete-offsets --group pair --topic parcels",
            "GroupSubscribedToTopicException", "is subscribed to the topic"),
    Refusal(GROUPS, "--delete-offsets --group nobody --topic parcels",
            "delete-offsets --group nobody --topic parcels",
            "GroupIdNotFoundException", "'nobody' does not exist"),
    Refusal(GROUPS, "--delete-offsets --group connect-sink --topic parcels",
            "delete-offsets --group connect-sink --topic parcels",
            "GroupNotEmptyException", "Stable with 1 members: stop them first"),
    Refusal(GROUPS, "--delete-offsets --group emptied --topic nothing",
            "delete-offsets --group emptied --topic nothing",
            "UnknownTopicOrPartitionException", "nothing +- +Error: UNKNOWN_TOPIC_OR_PARTITION"),
    Refusal(GROUPS, "--reset-offsets --group pair --topic parcels --to-latest --execute",
            "reset-offsets --group pair --topic parcels --to-latest --execute",
            "'pair' is inactive, but the current state is Stable", "Stable with 2 members"),
    Refusal(GROUPS, "--reset-offsets --group emptied --topic parcels:2 --shift-by 1 --dry-run",
            "reset-offsets --group emptied --topic parcels:2 --shift-by 1 --dry-run",
            "Cannot shift offset", "has no committed offset that can be shifted"),
    Refusal(GROUPS, "--reset-offsets --group emptied --topic nothing --to-latest --dry-run",
            "reset-offsets --group emptied --topic nothing --to-latest --dry-run",
            "UnknownTopicOrPartitionException", "topic 'nothing' does not exist"),
    Refusal(GROUPS, "--list --state great", "list --state great",
            "Invalid state list 'great'", "'great' is none of"),
    Refusal(GROUPS, "--list --type share", "list --type share",
            "Invalid types list 'share'", "'share' is none of"),
    Refusal(GROUPS, "--describe", "describe", "takes one of these options", "Name groups with"),
    Refusal(GROUPS, "--describe --all-groups --members --state",
            "describe --all-groups --members --state",
            "takes at most one of these options", "Only one of --offsets"),
    Refusal(GROUPS, "--delete-offsets --group emptied", "delete-offsets --group emptied",
            "takes the following options", "Missing option '--topic'"),
    Refusal(GROUPS, "--reset-offsets --group emptied --topic parcels --dry-run",
            "reset-offsets --group emptied --topic parcels --dry-run",
            "requires one of the following scenarios", "Say where to with one of"),
    Refusal(GROUPS, "--reset-offsets --group emptied --to-latest --dry-run",
            "reset-offsets --group emptied --to-latest --dry-run",
            "One of the reset scopes should be defined", "Name partitions with one of"),
    Refusal(TOPICS, "--create --topic parcels", "create --topic parcels",
            "Topic 'parcels' already exists", "topic 'parcels' already exists"),
    Refusal(TOPICS, "--create --topic t --config no.such=1", "create --topic t --config no.such=1",
            "Unknown topic config name: no.such", "Unknown topic config name: no.such"),
    Refusal(TOPICS, "--describe --topic nothing", "describe --topic nothing",
            "does not exist as expected", "topic 'nothing' does not exist"),
    Refusal(TOPICS, "--delete --topic nothing", "delete --topic nothing",
            "does not exist as expected", "topic 'nothing' does not exist"),
)  # fmt: skip
"""Nothing is changed, because both refuse."""

CHANGES = (
    "groups reset-offsets --group emptied --topic parcels:0,1 --to-offset 6 --execute",
    "groups reset-offsets --group made --all-topics --to-latest --execute",
    "groups reset-offsets --group made --topic receipts --to-earliest --execute",
    "groups delete-offsets --group emptied --topic receipts",
    "groups remove-members --group connect-sink --instance-id work* --reason gone --execute",
    "groups delete --group made --group connect-sink",
    "topics create --topic fresh --partitions 3 --config retention.ms=5000",
    "topics delete --topic fresh",
)
"""Words of ours; Kafka's tools have to see after each what we see."""

SEEN_AFTER_CHANGES = (
    Same(GROUPS, "--list --state", "list --state"),
    Same(GROUPS, "--describe --all-groups --verbose", "describe --all-groups --verbose"),
    Same(TOPICS, "--describe --exclude-internal", "describe --exclude-internal"),
)
