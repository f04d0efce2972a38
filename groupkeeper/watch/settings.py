"""The settings that an observer takes: those of its HTTP port, under the names of a server's.

What is set for a server beside it, in variables that both read, has no effect here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from groupkeeper.settings.listeners import HTTP
from groupkeeper.settings.setting import LISTENER_PREFIX
from groupkeeper.settings.table import TABLE, Settings, SettingsError, load

TAKEN: Final = (
    "http.hosts",
    "http.open.paths",
    "http.tls",
    "http.tokens.file",
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
)
"""Keys of the settings; those of TLS may begin with `listener.name.http.`, too."""
_OWN: Final = f"{LISTENER_PREFIX}{HTTP.lower()}."


def observer_settings(
    environment: Mapping[str, str], assignments: Sequence[str]
) -> tuple[Settings, tuple[str, ...]]:
    """Return the settings of an observer, and the keys of `environment` that it does not take.

    `environment` is the whole environment of the process, `assignments` are the `KEY=VALUE` of the
    command line. Raises SettingsError, also for an assignment of another key.
    """
    found, unused = load(None, environment, assignments)
    for each in assignments:
        key = each.partition("=")[0].strip()
        if key.removeprefix(_OWN) not in TAKEN:
            raise SettingsError(
                f"--set {key}: an observer takes the settings of its HTTP port alone, "
                f"{', '.join(TAKEN)}; the cluster's are in --command-config"
            )
    attributes = {TABLE[key].attribute for key in TAKEN}
    settings = replace(
        Settings(),
        **{each: getattr(found, each) for each in attributes},
        given=found.given.intersection(TAKEN),
        overrides=tuple(
            each for each in found.overrides if each[0] == HTTP.lower() and each[2] in attributes
        ),
    )
    return settings, (*unused, *sorted(found.given.difference(TAKEN)))
