"""What modules of the page draw, by Node, with as much of a document as they need."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from groupkeeper.web.page_files import FOLDER

NEEDS_NODE = pytest.mark.skipif(shutil.which("node") is None, reason="needs Node")
DOCUMENT = """
class Element {
  constructor(tag) { Object.assign(this, { tag, attributes: {}, children: [] }); }
  setAttribute(name, value) { this.attributes[name] = String(value); }
  addEventListener() {}
  append(...some) { this.children.push(...some); }
  prepend(...some) { this.children.unshift(...some); }
  replaceChildren(...some) { this.children = some; }
  querySelectorAll(name) {
    const found = this.children.filter((each) => each instanceof Element);
    const isIt = (each) => `.${each.attributes.class}` === name;
    return found.flatMap((each) => (isIt(each) ? [each] : each.querySelectorAll(name)));
  }
}
globalThis.document = {
  createElement: (tag) => new Element(tag),
  createElementNS: (_, tag) => new Element(tag),
  addEventListener() {},
};
"""

# Any: JSON.
Element = dict[str, Any]


def drawn(module: str, expression: str, **given: Any) -> Any:
    """The value of an expression, in which the exports of a module and what is given have their
    names; an element is a dictionary of its tag, attributes and children.
    """
    code = [
        DOCUMENT,
        f"const module = await import({json.dumps((FOLDER / module).as_uri())});",
        f"const {{ {', '.join(given)} }} = {json.dumps(given)};",
        f"with_module(module);\nfunction with_module({{ {_exports(module)} }}) {{",
        f"  console.log(JSON.stringify({expression}));\n}}",
    ]
    command = ["node", "--input-type=module", "-"]
    ran = subprocess.run(
        command, input="\n".join(code), capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def _exports(module: str) -> str:
    lines = (FOLDER / module).read_text(encoding="utf-8").splitlines()
    words = [line.split() for line in lines if line.startswith("export ")]
    return ", ".join(each[2].partition("(")[0] for each in words if each[1] != "async")


def found(element: Element | str, tag: str) -> Iterator[Element]:
    """All elements of a tag, in the order of the document."""
    if isinstance(element, str):
        return
    if element["tag"] == tag:
        yield element
    for each in element["children"]:
        yield from found(each, tag)


def text_of(element: Element | str) -> str:
    return element if isinstance(element, str) else "".join(map(text_of, element["children"]))
