"""The whole page: one file that loads nothing, with its parts in the order in which they are read.

Its style and the module that draws are those of the server's page (`groupkeeper/web/page`). Its
policy allows its own style and script by their digests, and nothing else.
"""

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Final

from groupkeeper.analytics.page.figure import Figure
from groupkeeper.analytics.page.markup import Child, Html, fill

STYLES: Final = ("web/page/page.css", "analytics/page/report.css")
SCRIPTS: Final = ("web/page/dom.js", "web/page/lanes.js", "analytics/page/report.js")
"""In an order in which each imports from those before."""
OURS: Final = '<meta name="generator" content="groupkeeper">'
"""Near the start of each page: what else is in a file is not replaced."""
Part = tuple[str, str, Html | None, str]
"""A section: its name and its title, what is in it, and why it is empty, if it is."""
_PAGE: Final = f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">{OURS}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src '{{}}'; \
script-src '{{}}'; base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; \
trusted-types 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark"><meta name="referrer" content="no-referrer">
<title>{{}}</title><style>{{}}</style></head><body><a href="#main" class="skip">To the findings</a>
<header><p class="name">Groupkeeper</p><h1>{{}}</h1>{{}}</header>
<nav class="contents" aria-label="Contents"><ul>{{}}</ul></nav>
<main id="main" tabindex="-1">{{}}</main><footer>{{}}</footer>
<script type="application/json" id="pictures">{{}}</script><script>{{}}</script></body></html>
"""
_SECTION: Final = '<section id="{}" aria-labelledby="{}-head"><h2 id="{}-head">{}</h2>{}</section>'


def document(
    title: str, summary: Child, parts: Sequence[Part], figures: Sequence[Figure], foot: Child
) -> str:
    """The page. Parts without content say why in one line, and are not in the list of contents."""
    style, code = Html("".join(map(_read, STYLES))), script()
    links = [fill('<li><a href="#{}">{}</a></li>', *each[:2]) for each in parts if each[2]]
    sections = [
        fill(
            _SECTION, name, name, name, head, content or fill('<p class="missing">{}</p>', missing)
        )
        for name, head, content, missing in parts
    ]
    head = _digest(style), _digest(code), title, style, title, summary
    return fill(_PAGE, *head, links, sections, foot, embedded(figures), code)


def embedded(figures: Sequence[Figure]) -> Html:
    """What is drawn, by the name of its figure, as JSON that cannot end its element."""
    told = json.dumps({each.name: each.data for each in figures}, separators=(",", ":"))
    return Html(told.replace("<", "\\u003c"))


def script() -> Html:
    """The modules as one script, each in a function: nothing of one is seen by another but what it
    exports.
    """
    made = ['"use strict";\nconst modules = {};\n']
    for path in SCRIPTS:
        code, name = _read(path), path.rpartition("/")[2]
        exports = re.findall(r"^export (?:class|const|function) (\w+)", code, re.MULTILINE)
        code = re.sub(r"^export ", "", code, flags=re.MULTILINE)
        required = r'const \1 = modules["\2"];'
        code = re.sub(r'^import (.*) from "./(.*)";', required, code, flags=re.MULTILINE)
        made.append(
            f'modules["{name}"] = (() => {{\n{code}return {{ {", ".join(exports)} }};\n}})();\n'
        )
    return Html("".join(made))


def _read(path: str) -> str:
    """A file of the package, which may be in a zip file."""
    return files("groupkeeper").joinpath(*path.split("/")).read_text(encoding="utf-8")


def _digest(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
