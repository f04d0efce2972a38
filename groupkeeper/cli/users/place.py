"""The place of users: a cluster, or the data directory of a server that does not run."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.cluster import Cluster, cluster_options
from groupkeeper.cli.options import Function, on_command_line, together

if TYPE_CHECKING:
    from groupkeeper.topics.catalog import Catalog

MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


@dataclass(slots=True, frozen=True)
class UsersPlace:
    """A cluster, unless a data directory is given."""

    cluster: Cluster
    data_dir: Path | None

    @contextmanager
    def catalog(self, *, new: bool = False) -> "Iterator[Catalog]":
        """Open the catalog of the data directory; `new`: which may be a new one. Raises
        CommandRefused.
        """
        from groupkeeper.server.offline_catalog import offline_catalog
        from groupkeeper.settings.table import Settings
        from groupkeeper.storage.errors import StorageError
        from groupkeeper.topics.catalog_log import FOLDERS as CATALOG

        assert self.data_dir is not None, "else the cluster is asked"
        if not new and not (self.data_dir / CATALOG[0]).is_dir():
            raise CommandRefused(f"{self.data_dir} is no data directory of a server")
        try:
            with offline_catalog(self.data_dir, Settings()) as catalog:
                yield catalog
        except (StorageError, OSError) as problem:
            raise CommandRefused(str(problem)) from None


def place_options(function: Function) -> Function:
    """Add the options of a cluster, and `--data-dir`, as the parameter `place`."""

    @wraps(function)
    def placed(*arguments: Any, cluster: Cluster, data_dir: Path | None, **more: Any) -> Any:
        if data_dir is not None and on_command_line("bootstrap_server"):
            raise click.UsageError("--data-dir and --bootstrap-server are mutually exclusive")
        return function(*arguments, place=UsersPlace(cluster, data_dir), **more)

    option = click.option(
        "--data-dir",
        type=click.Path(file_okay=False, path_type=Path),
        help="The data directory of a server that does not run, instead of a cluster.",
    )
    found: Function = together(option, cluster_options)(placed)
    return found


def mechanism_option(text: str) -> Callable[[Any], Any]:
    """Make the option `--mechanism`, which may be repeated; the parameter is `mechanisms`."""
    return click.option(
        "--mechanism",
        "mechanisms",
        multiple=True,
        type=click.Choice(MECHANISMS, case_sensitive=False),
        help=text,
    )


def chosen(mechanisms: Sequence[str], default: Sequence[str]) -> list[str]:
    """Return the mechanisms without repetitions."""
    return list(dict.fromkeys(mechanisms or default))
