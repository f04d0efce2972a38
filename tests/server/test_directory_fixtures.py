"""Data directories that earlier versions left behind are opened, and nothing in them is lost."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.directories import restore, seen
from tests.support.served import Served

FIXTURES = Path(__file__).parent.parent / "fixtures"
DIRECTORIES = [
    pytest.param(folder, state, id=f"{folder.name}-{state}")
    for folder in sorted(FIXTURES.glob("data-directory-*"))
    for state in ("stopped", "killed")
]


@pytest.mark.parametrize(("folder", "state"), DIRECTORIES)
def test_an_earlier_directory_has_all_that_was_in_it_and_serves_new_requests(
    serve: Callable[..., Served], folder: Path, state: str
) -> None:
    served = serve(start=False)
    restore(folder / state, served.disk)
    served.start()
    served.settled()
    expected = json.loads((folder / "expected.json").read_text())[state]
    assert seen(served) == expected
    assert served.client().commit(99, "billing") == 0
    served.cut_power()
    served.settled()
    expected["offsets"]["billing"] = {"orders-0": 99}
    assert seen(served) == expected
    served.stop()
    served.start()
    served.settled()
    assert seen(served) == expected
