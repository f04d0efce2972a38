"""Java libraries with everything they need, copied into a folder by Maven."""

from collections.abc import Sequence
from pathlib import Path

from tests.suites.process import call

_POM = """\
<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>suites</groupId>
  <artifactId>suites</artifactId>
  <version>1</version>
  <dependencies>
{dependencies}
  </dependencies>
</project>
"""
_DEPENDENCY = """\
    <dependency>
      <groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>{}
    </dependency>"""
_ALONE = """
      <exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"""


def jars(folder: Path, coordinates: Sequence[str]) -> str:
    """The class path of libraries `group:artifact:version`, fetched unless they are in `folder`.
    One that ends in `!` comes without what it needs.

    Raises SuiteError.
    """
    wanted = _POM.format(dependencies="\n".join(map(_dependency, coordinates)))
    folder.mkdir(exist_ok=True)
    done, pom = folder / "done", folder / "pom.xml"
    if not (done.exists() and done.read_text() == wanted):
        for old in folder.glob("*.jar"):
            old.unlink()
        pom.write_text(wanted)
        command = ["mvn", "--batch-mode", "--quiet", "dependency:copy-dependencies"]
        call([*command, "-DoutputDirectory=."], folder)
        done.write_text(wanted)
    return f"{folder}/*"


def _dependency(coordinate: str) -> str:
    alone = _ALONE if coordinate.endswith("!") else ""
    return _DEPENDENCY.format(*coordinate.removesuffix("!").split(":"), alone)
