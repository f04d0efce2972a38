"""Data directories that earlier versions left behind are opened, and nothing in them is lost."""

import json
from pathlib import Path

import pytest

from tests.support.directories import restore, seen
from tests.support.served import Serve

FIXTURES = Path(__file__).parent.parent / "fixtures"
DIRECTORIES = [
    pytest.param(folder, state, id=f"{folder.name}-{state}")
    for folder in sorted(FIXTURES.glob("data-directory-*"))
    for state in ("stopped", "killed")
]


@pytest.mark.parametrize(("folder", "state"), DIRECTORIES)
def test_an_earlier_directory_has_all_that_was_in_it_and_serves_new_requests(
    serve: Serve, folder: Path, state: str
) -> None:
    served = serve(start=False)
    restore(folder / state, served.disk)
    served.start()
    served.settled()
    expected = json.loads((folder / "expected.json").read_text())[state]
    assert seen(served) == expected
    assert served.client().commit(99, "billing") == 0
    served.recover("lose")
    expected["offsets"]["billing"] = {"orders-0": 99}
    assert seen(served) == expected
    served.restart_cleanly()
    assert seen(served) == expected
