"""Hooks of mkdocs: what `make docs-site` needs beyond its configuration, mkdocs.yml.

The navigation is made from docs/index.md: a section per heading, with the pages listed below it.
Links to files outside docs/ are checked, and become text: these files are not on the site. With
`repository` under `extra` in mkdocs.yml they are links into the repository. (With mkdocs' own
`repo_url`, pages would ask a host for the repository's numbers.)
"""

import logging
import re
from pathlib import Path
from posixpath import dirname, join, normpath
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.treeprocessors import Treeprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
INDEX = "index.md"
BEFORE_MKDOCS = 1
"""Priority above that of mkdocs' own check of links, which knows only files in docs/."""

_log = logging.getLogger("mkdocs.hooks.site")  # mkdocs counts its warnings


def navigation(index: str) -> list[str | dict[str, list[str]]]:
    """The index itself, then its sections with their pages; files outside docs/ are left out."""
    found: list[str | dict[str, list[str]]] = [INDEX]
    for section in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        title, _, body = section.partition("\n")
        listed = re.findall(r"\]\(([^)#]+\.md)\)", body)
        found.append({title: [page for page in listed if not page.startswith("../")]})
    return found


class LinksOutside(Treeprocessor):
    """Replaces links to files outside docs/."""

    page = INDEX
    """Path in docs/ of the page that is being converted."""
    repository = ""
    """Where the repository is shown; empty if nowhere."""

    def run(self, root: Element) -> None:
        for link in root.iter("a"):
            target, _, anchor = link.get("href", "").partition("#")
            path = normpath(join("docs", dirname(self.page), target))
            if target and ":" not in target and not path.startswith("docs/"):
                self._replace(link, path, anchor)

    def _replace(self, link: Element, path: str, anchor: str) -> None:
        if not (ROOT / path).exists():
            _log.warning("%s links to %s, which does not exist", self.page, path)
        link.attrib.clear()
        if self.repository:
            link.set("href", f"{self.repository}/blob/main/{path}{anchor and '#' + anchor}")
        else:
            link.tag = "span"
            link.set("title", path)


class Registration(Extension):
    """Adds `LinksOutside` to the conversion of each page."""

    def __init__(self, links: LinksOutside) -> None:
        super().__init__()
        self._links = links

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802  # Markdown's name
        md.treeprocessors.register(self._links, "links-outside", BEFORE_MKDOCS)


_links_outside = LinksOutside()


def on_config(config: MkDocsConfig) -> None:
    """Set what mkdocs.yml cannot say."""
    config.nav = navigation((Path(config.docs_dir) / INDEX).read_text(encoding="utf-8"))
    config.markdown_extensions.append(Registration(_links_outside))
    _links_outside.repository = config.extra.get("repository", "").rstrip("/")


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Note which page is converted next."""
    _links_outside.page = page.file.src_uri
    return markdown
