"""All that is known of a play, by its time: what was done, what the coordinator logged, and the
group's records and commits. For whoever wonders why something else was told.
"""

from groupkeeper.history.records import GROUP_KEY_TYPE, GroupRecord, read_generation
from tests.truth.observed.plays import Outcome
from tests.truth.observed.records import item_of

_LINE = 200
"""So many characters of a line of the coordinator are shown."""


def timeline(outcome: Outcome) -> list[str]:
    """The lines, with times in milliseconds since the beginning of what the play is about."""
    found = [(each["at_ms"], f"deed  {each['what']} {each['name']}") for each in outcome.deeds]
    for line in outcome.lines:
        at_ms, _, text = line.partition(" ")
        shown = text.rpartition("] ")[2] if text.startswith("[GroupCoordinator") else text
        found.append((int(at_ms), f"log  {shown.replace(outcome.group, 'g')[:_LINE]}"))
    found += _records(outcome)
    begun = outcome.begun_ms
    return [
        f"{at_ms - begun} ms  {text}" for at_ms, text in sorted(found, key=lambda each: each[0])
    ]


def _records(outcome: Outcome) -> list[tuple[int, str]]:
    """The records, and commits with the name of the member whose partition it is."""
    found, owners = list[tuple[int, str]](), dict[tuple[str, int], str]()
    for item in map(item_of, outcome.records):
        if not isinstance(item, GroupRecord):
            owner = owners.get((item.topic, item.partition), "nobody")
            until = f"until {item.last_ms - outcome.begun_ms} ms"
            told = f"commits  {owner} {item.partition}: {item.commits}, {until}"
            found.append((item.first_ms, told))
        elif item.value is None or item.key_type != GROUP_KEY_TYPE:
            what = "tombstone" if item.value is None else "value"
            found.append((item.time_ms, f"record  {what} of key type {item.key_type}"))
        else:
            now = read_generation(item.value)
            names = {each.member: each.instance or each.client_id for each in now.members.values()}
            owners = {
                (topic, number): names[member]
                for member, share in now.assigned.items()
                for topic, numbers in (share or {}).items()
                for number in numbers
            }
            about = f"generation {now.generation}, leader {names.get(now.leader or '')}"
            found.append((item.time_ms, f"record  {about}: {', '.join(names.values())}"))
    return found
