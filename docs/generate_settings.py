"""Writes docs/configuration.md from the settings table; `--check` only compares."""

import sys
from pathlib import Path

from generated import run

from groupkeeper.settings.setting import Setting, Value
from groupkeeper.settings.table import TABLE

PAGE = Path(__file__).with_name("configuration.md")

HEAD = """\
# Configuration

*Generated from `groupkeeper/settings/table.py` by `make docs`; edit there.*

Addresses and the data directory are options of `groupkeeper serve` (see its `--help`). Everything
else is a setting under **Kafka's own name**, so that what you know, and your `server.properties`,
work. Sources, later wins:

1. the defaults below, and those of `--dev`;
2. a properties file in Java's syntax: `--config server.properties`;
3. the environment: `GROUPKEEPER_GROUP_MAX_SIZE=500` is `group.max.size=500`, but for the
   [variables of commands](commands.md#options-that-commands-share), which a server does not read;
4. the command line: `--set group.max.size=500`, any number of times.

A key that Kafka's broker knows and Groupkeeper does not use (`num.network.threads`, `log.dirs`) is
accepted and named in one log line. A key that nobody knows, a wrong type, a value out of range
or two settings that exclude each other stop the start with one line that names the key, and exit
code 2.
`broker.id` is read as `node.id`.

Settings that begin with `ssl.` or `sasl.`, and `connections.max.reauth.ms`, may be given for one
listener, whose name is in lower case then: `listener.name.outside.ssl.client.auth=required`. Some
are for one of its mechanisms ([security.md](security.md#sasl)):
`listener.name.outside.oauthbearer.sasl.oauthbearer.expected.issuer=https://id.example`.

| setting | default | values | what it does |
|---|---|---|---|
"""

DEV = """
## `--dev`

For a laptop and for tests: groups form at once, and the data is gone when the server ends, unless
`--data-dir` names a place for it. These defaults change; whatever you give yourself still wins.

| setting | default under `--dev` |
|---|---|
"""


def show(value: Value | None) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return "not set" if value is None else str(value)


def row(setting: Setting) -> str:
    return f"| `{setting.key}` | {show(setting.default)} | {setting.bounds} | {setting.doc} |\n"


def page() -> str:
    dev = (f"| `{s.key}` | {show(s.dev)} |\n" for s in TABLE.values() if s.dev is not None)
    return HEAD + "".join(map(row, TABLE.values())) + DEV + "".join(dev)


if __name__ == "__main__":
    sys.exit(run(PAGE, page))
