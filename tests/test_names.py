"""A public name has one definition in the product: a reader who searches for it finds one thing."""

import ast
from collections import defaultdict
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
FOLDERS: Final = ("coordinator", "groupkeeper", "protocol", "storage")
DOUBLES: Final = frozenset(
    {
        # Kafka's names of parts of messages: a message has its own.
        *("AlterConfigsResource", "AlterableConfig", "Assignment", "EpochEndOffset", "Listener"),
        *("PartitionData", "ReplicaState", "TopicData", "TopicPartitions", "TransactionState"),
        # In the API of `groupkeeper.testing` and inside the server.
        *("Group", "Record", "Round"),
        *("Cluster", "Data", "KeyValue", "Node", "Partition", "Plan", "Topic", "TopicPartition"),
        *("Value", "Wanted"),
    }
)
"""Names that two modules or more define. The list may only become shorter."""


def public_names(tree: ast.Module) -> set[str]:
    """Classes, and aliases of types."""
    found = set()
    for node in tree.body:
        match node:
            case ast.ClassDef(name=name):
                found.add(name)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                if name[0].isupper() and not name.isupper():
                    found.add(name)
    return {each for each in found if not each.startswith("_")}


def test_a_public_name_has_one_definition() -> None:
    defined = defaultdict[str, set[Path]](set)
    for folder in FOLDERS:
        for file in (ROOT / folder).rglob("*.py"):
            for name in public_names(ast.parse(file.read_text(encoding="utf-8"))):
                defined[name].add(file.resolve())
    doubles = {name for name, files in defined.items() if len(files) > 1}
    assert doubles - DOUBLES == set(), "give these another name, or make them private"
    assert DOUBLES - doubles == set(), "remove these from the list"
    assert len(DOUBLES) <= 30
