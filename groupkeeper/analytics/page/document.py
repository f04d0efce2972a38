"""The whole page: one file that loads nothing, with its parts in the order in which they are read.

Its policy allows its own style and script by their digests, and nothing else.
"""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from groupkeeper.analytics.page.causes import patterns
from groupkeeper.analytics.page.markup import Child, Html, joined, tag

_FOLDER: Final = files("groupkeeper.analytics.page")
"""The package may be in a zip file."""


OURS: Final = tag("meta", name="generator", content="groupkeeper")
"""Near the start of each page: what else is in a file is not replaced."""


@dataclass(frozen=True, slots=True)
class Part:
    """A section: `missing` says why it is empty, if it is."""

    name: str
    title: str
    content: Html | None
    missing: str = ""


def document(title: str, summary: Child, parts: Sequence[Part], foot: Child) -> str:
    """The page. Parts without content say why in one line, at the end of the list of contents."""
    style = (_FOLDER / "page.css").read_text(encoding="utf-8")
    script = (_FOLDER / "page.js").read_text(encoding="utf-8")
    there = [each for each in parts if each.content is not None]
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        OURS,
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("title", title),
        tag("style", Html(style)),
    )
    links = [tag("li", tag("a", each.title, href=f"#{each.name}")) for each in there]
    body = tag(
        "body",
        patterns(),
        tag("a", "To the findings", href=f"#{there[0].name}" if there else "#main", class_="skip"),
        tag("header", tag("p", "Groupkeeper", class_="brand"), tag("h1", title), summary),
        tag("nav", tag("ul", links), aria_label="Contents"),
        tag("main", [_section(each) for each in parts], id="main", tabindex="-1"),
        tag("footer", foot),
        tag("script", Html(script)),
    )
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def _section(part: Part) -> Html:
    inner = part.content
    if inner is None:
        inner = tag("p", part.missing, class_="missing")
    return tag(
        "section",
        tag("h2", part.title, id=f"{part.name}-head"),
        inner,
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


def note(words: Child) -> Html:
    return tag("p", joined(words), class_="quiet")
