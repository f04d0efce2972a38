"""The whole page: one file that loads nothing, with its parts in the order in which they are read.

Its style and the module that draws are those of the server's page (`groupkeeper/web/page`). Its
policy allows its own style and script by their digests, and nothing else.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from groupkeeper.analytics.page.figure import Figure
from groupkeeper.analytics.page.markup import Child, Html, tag

_PACKAGE: Final = files("groupkeeper")
"""It may be in a zip file."""
STYLES: Final = ("web/page/page.css", "analytics/page/report.css")
SCRIPTS: Final = ("web/page/dom.js", "web/page/lanes.js", "analytics/page/report.js")
"""In an order in which each imports from those before."""
OURS: Final = tag("meta", name="generator", content="groupkeeper")
"""Near the start of each page: what else is in a file is not replaced."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section: `missing` says why it is empty, if it is."""

    name: str
    title: str
    content: Html | None
    missing: str = ""


def document(
    title: str, summary: Child, parts: Sequence[Part], figures: Sequence[Figure], foot: Child
) -> str:
    """The page. Parts without content say why in one line, and are not in the list of contents."""
    style, code = "".join(map(_read, STYLES)), script()
    there = [each for each in parts if each.content is not None]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        OURS,
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, code)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(style)),
    )
    links = [tag("li", tag("a", each.title, href=f"#{each.name}")) for each in there]
    body = tag(
        "body",
        tag("a", "To the findings", href=f"#{there[0].name}" if there else "#main", class_="skip"),
        tag("header", tag("p", "Groupkeeper", class_="name"), tag("h1", title), summary),
        tag("nav", tag("ul", links), class_="contents", aria_label="Contents"),
        tag("main", [_section(each) for each in parts], id="main", tabindex="-1"),
        tag("footer", foot),
        tag("script", embedded(figures), type="application/json", id="pictures"),
        tag("script", Html(code)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def embedded(figures: Sequence[Figure]) -> Html:
    """What is drawn, by the name of its figure, as JSON that cannot end its element."""
    told = json.dumps({each.name: each.data for each in figures}, separators=(",", ":"))
    return Html(told.replace("<", "\\u003c"))


def script() -> str:
    """The modules as one script, each in a function: nothing of one is seen by another but what it
    exports.
    """
    made = ['"use strict";\nconst modules = {};\n']
    for path in SCRIPTS:
        code = _read(path)
        exports = ", ".join(
            re.findall(r"^export (?:class|const|function) (\w+)", code, re.MULTILINE)
        )
        code = re.sub(r"^export ", "", code, flags=re.MULTILINE)
        code = re.sub(
            r'^import (.*) from "(.*)";', r'const \1 = modules["\2"];', code, flags=re.MULTILINE
        )
        name = path.rpartition("/")[2]
        made.append(f'modules["./{name}"] = (() => {{\n{code}return {{ {exports} }};\n}})();\n')
    return "".join(made)


def _read(path: str) -> str:
    return _PACKAGE.joinpath(*path.split("/")).read_text(encoding="utf-8")


def _section(part: Part) -> Html:
    return tag(
        "section",
        tag("h2", part.title, id=f"{part.name}-head"),
        tag("p", part.missing, class_="missing") if part.content is None else part.content,
        id=part.name,
        aria_labelledby=f"{part.name}-head",
    )


def _policy(style: str, script: str) -> str:
    rules = (
        "default-src 'none'",
        f"style-src '{_digest(style)}'",
        f"script-src '{_digest(script)}'",
        "base-uri 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
    return "; ".join(rules)


def _digest(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
