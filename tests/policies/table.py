"""The table of client by check, as lines of Markdown; a terminal shows it as well."""

from collections.abc import Iterator, Mapping, Sequence

from tests.policies.catalogue import CHECKS

OK, NOT_PLAYED, NONE = "ok", "not played", "-"


def lines(faults: Mapping[str, str]) -> Iterator[str]:
    """`faults`: by the name of a check with its client what was not so, or nothing; those that are
    not in it were not played.
    """
    numbers = list(dict.fromkeys(each.number for each in CHECKS))
    cells = {(each.client.name, each.number): each.key for each in CHECKS}
    told: list[str] = []
    yield _row(["client", *numbers])
    yield _row(["---"] * (1 + len(numbers)))
    for client in dict.fromkeys(each.client.name for each in CHECKS):
        keys = [cells.get((client, number)) for number in numbers]
        yield _row([client, *(_cell(key, faults, told) for key in keys)])
    yield ""
    for number, name in dict.fromkeys((each.number, each.name) for each in CHECKS):
        yield f"- {number}: {name}"
    if told:
        yield ""
        yield from (f"{number}. {text}" for number, text in enumerate(told, 1))


def _cell(key: str | None, faults: Mapping[str, str], told: list[str]) -> str:
    if key is None:
        return NONE
    if key not in faults:
        return NOT_PLAYED
    if not faults[key]:
        return OK
    told.append(f"{key}: {faults[key]}")
    return f"({len(told)})"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
