"""Writes docker/THIRD-PARTY.md from what server.txt locks; `--check` only compares."""

import re
import sys
from collections.abc import Iterator
from email.message import Message
from importlib.metadata import metadata
from pathlib import Path

from generated import run

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docker" / "THIRD-PARTY.md"
LOCK = ROOT / "requirements" / "server.txt"

HEAD = """\
# Third-party software in the image

*Generated from `requirements/server.txt` and the packages' own metadata by `make docs`.*

The image has Groupkeeper, under Apache-2.0 (`LICENSE`), and the packages below, unmodified, as
their authors publish them. The full text of each licence is with the package, in `*.dist-info`
under `/opt/groupkeeper/lib/python3.11/site-packages`. What the base image brings is Python and pip,
under the PSF and the MIT licence, and Debian's packages, whose licences are in `/usr/share/doc`.

crc32c is under the GNU Lesser General Public License. It is a shared library of its own, which you
may replace by another build with `/opt/groupkeeper/bin/pip install`; its source is where the table
says.

| package | version | licence | source |
|---|---|---|---|
"""


def locked() -> Iterator[tuple[str, str]]:
    """Names and versions."""
    for pin in re.finditer(r"^([a-z0-9-]+)==(\S+)", LOCK.read_text(encoding="utf-8"), re.MULTILINE):
        yield pin[1], pin[2]


def licence(about: Message) -> str:
    """As the package says it, in the newest form that it has."""
    said = about["License-Expression"] or about["License"] or ""
    if not said or "\n" in said:
        kinds = [each for each in about.get_all("Classifier", []) if each.startswith("License ::")]
        said = " OR ".join(each.rpartition(" :: ")[2].removesuffix(" License") for each in kinds)
    if not said:
        sys.exit(
            f"{about['Name']} does not say its licence: look it up, and choose another package"
        )
    return str(said)


def source(about: Message) -> str:
    """The address that the package gives for its source, or else for its home."""
    given = (each.partition(", ") for each in about.get_all("Project-URL", []))
    urls = {label.lower(): url for label, _, url in given}
    for label in ("source", "source code", "repository", "github", "homepage"):
        if label in urls:
            return urls[label]
    return str(about["Home-page"])


def page() -> str:
    rows = []
    for name, version in locked():
        about: Message = metadata(name)  # type: ignore[assignment]  # a Message behind a protocol
        if about["Version"] != version:
            sys.exit(
                f"{name} {about['Version']} is installed, {version} is locked: run `make docs`"
            )
        rows.append(f"| {name} | {version} | {licence(about)} | {source(about)} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
