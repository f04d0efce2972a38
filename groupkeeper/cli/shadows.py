"""A check that ``protocol``, ``coordinator`` and ``storage`` are ours.

The names are common. In an environment where another package took one of them the server would
fail in strange ways; here it says what is wrong.
"""

from importlib.util import find_spec
from pathlib import Path

import click

import groupkeeper

NAMES = ("protocol", "coordinator", "storage")


def check_packages(names: tuple[str, ...] = NAMES) -> None:
    """Raises click.ClickException when one is missing or stands elsewhere. Imports none of them."""
    assert groupkeeper.__file__ is not None
    home = Path(groupkeeper.__file__).parent.parent
    for name in names:
        spec = find_spec(name)
        found = Path(spec.origin).parent.parent if spec and spec.origin else None
        if found != home:
            where = f"found in {found}" if found else "not found"
            raise click.ClickException(
                f"the package {name!r} belongs in {home} and was {where}: "
                "install Groupkeeper in an environment of its own"
            )
