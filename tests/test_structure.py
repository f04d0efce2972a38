"""What `make structure` counts, and no cycle between the modules of the product."""

from pathlib import Path

import pytest

from tools.structure import Lines, Tree, lines, main, ordered

ROOT = Path(__file__).parent.parent


def test_lines_of_code_and_of_text() -> None:
    text = '"""Text.\n\nMore."""\n\n# A comment.\n'
    code = 'limit = 3  # code\n"""The limit."""\n\nname = """a\nb"""\n'
    assert lines(text + code) == Lines(code=3, doc=4)


def test_a_cycle_is_broken_at_its_weakest_arrow() -> None:
    imports = {("top", "middle"): 5, ("middle", "low"): 4, ("low", "top"): 1, ("top", "low"): 2}
    found = ordered({"top", "middle", "low"}, imports)
    assert found.floors == {"low": 0, "middle": 1, "top": 2}
    assert found.upward == [("low", "top")]
    assert [sorted(set(cycle)) for cycle in found.cycles] in (
        [["low", "top"]],
        [["low", "middle", "top"]],
    )


def test_another_checkout_is_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    house = tmp_path / "house"
    for room in ("cellar", "attic"):
        (house / room).mkdir(parents=True)
        (house / room / "__init__.py").touch()
    (house / "__init__.py").touch()
    (house / "attic" / "box.py").write_text("import house.cellar.wine\n")
    (house / "cellar" / "wine.py").write_text("bottles = 3\n")
    assert main([str(tmp_path), "house"]) == 0
    assert "\n  house/attic  -> house/cellar 1\n" in capsys.readouterr().out
    (house / "cellar" / "wine.py").write_text("def drink() -> None:\n    import house.attic\n")
    assert main([str(tmp_path), "house"]) == 1
    assert "cycles between rooms: 1\n" in capsys.readouterr().out


@pytest.fixture(scope="module")
def product() -> Tree:
    return Tree(ROOT, ["groupkeeper"])


def test_every_module_of_the_product_is_in_a_room(product: Tree) -> None:
    folders = ("coordinator", "groupkeeper", "protocol", "storage")
    files = {file for folder in folders for file in (ROOT / folder).rglob("*.py")}
    assert {file.resolve() for file in files} == set(product.files.values())
    assert {"coordinator", "groupkeeper", "protocol", "storage"} <= set(product.rooms.values())


def test_no_modules_import_each_other_in_a_circle(product: Tree) -> None:
    assert ordered(product.files, product.imports).cycles == []


def test_no_rooms_import_each_other_in_a_circle(product: Tree) -> None:
    assert ordered({*product.rooms.values()}, product.arrows).cycles == []
