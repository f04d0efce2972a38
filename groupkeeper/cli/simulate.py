"""`groupkeeper simulate`: what a described history of a group costs under several designs.

A command of its own and no option of `analyze`: it reads no log, needs none of the libraries of an
analysis, and what it compares is made up by whoever asks.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from groupkeeper.cli.app import CommandRefused
from groupkeeper.cli.options import json_rows
from groupkeeper.cli.tables import show
from groupkeeper.why.texts import printable

if TYPE_CHECKING:
    from groupkeeper.analytics.what_if.described import History
    from groupkeeper.analytics.what_if.designs import Design


HELP: Final = """\
Replay a history through the coordinator's own decisions under each design, in virtual time,
and print what it costs.

HISTORY is a file, or one that comes with the program; default: all of these:
rolling-leave, rolling-killed, killed-back, node-back-30s, node-back-75s, node-elsewhere,
node-lost, scale-up, scale-down, crash-loop.

\b
  groupkeeper simulate rolling-leave
  groupkeeper simulate rolling-leave --set grace=15s --design eager --design eager+II
  groupkeeper simulate scale-up --show > ours.toml
  groupkeeper simulate ours.toml --json | jq .unavailable_s

A file is TOML. Durations have a unit: 500ms, 45s, 5min.

\b
  members = 10                    # they have numbers, from 0
  partitions = 60
  session = "45s"                 # heartbeat = "3s", rebalance_timeout = "5min"
  protocol = "eager"              # or "cooperative", for designs that do not say
  lasts = "20min"
  events = [
      "restart member=3 at=60s down=20s leave=true",
      "kill member=0-2 at=5min every=2s back=30s host=new",
  ]

\b
Events; words in brackets may be left out:
  restart member= at= down= [every= leave= host=]   leave=false: killed
  stop member= at= [every= leave=]                  for good
  kill member= at= [every= back= host=]             its connections are closed
  node-lost member= at= [back= host=]               nobody closes them
  crash-loop member= at= times= up= down= [host=]   killed again and again
  pause member= at= for= [every=]                   it sends nothing
  scale-up by= at= [every=]                         newcomers
  scale-down by= at= [every= leave=]                the newest leave

\b
Further keys: title, rejoin, initial_delay, beats ("together" or "apart"); and of the designs
  eager, I, static                Kafka's: eager, cooperative, static members
  eager+II, I+II                  places are kept: grace, reserve, match
  standby                         spares that take over: spares
  III                             a few partitions at a time: step, step_interval
  window                          newcomers wait for others: window

Columns: rebalances, partitions that changed hands (in all, and at once), partition-seconds in
which nobody read (of these in kept places) and in which the largest share was too large,
JoinGroups of members that did nothing to cause them, and members asked without a rebalance.
"""


@click.command(
    short_help="Compare designs of rebalancing on a history that you describe.", help=HELP
)
@click.argument("histories", nargs=-1, metavar="[HISTORY]...")
@click.option(
    "--design", "names", multiple=True, metavar="NAME", help="Only this one; may be repeated."
)
@click.option(
    "--set", "settings", multiple=True, metavar="KEY=VALUE", help="Another value than the file's."
)
@click.option("--show", "as_file", is_flag=True, help="Print the files of histories, to copy.")
@json_rows()
def simulate(
    histories: tuple[str, ...],
    names: tuple[str, ...],
    settings: tuple[str, ...],
    as_file: bool,
    as_json: bool,
) -> int:
    from groupkeeper.analytics.what_if.described import BUILT_IN
    from groupkeeper.analytics.what_if.designs import DESIGNS

    for name in names:
        if name not in DESIGNS:
            raise click.UsageError(f"no design '{name}': it is one of {', '.join(DESIGNS)}")
    texts = {name: _text_of(name) for name in histories or BUILT_IN}
    if as_file:
        print(*texts.values(), sep="\n", end="")
        return 0
    changed = _changed(settings)
    read = [_read(name, text, changed) for name, text in texts.items()]
    designs = {name: DESIGNS[name] for name in names or DESIGNS}
    for history in read:
        if not as_json:
            told = f"{history.title}: {history.members} members"
            print(f"\n{printable(told)}, {history.behaviour.partitions} partitions")
        rows = [*_rows(history, designs, as_json)]
        show(rows, as_json=as_json)
    return 0


def _text_of(name: str) -> str:
    from groupkeeper.analytics.what_if.described import BUILT_IN, text_of

    if name in BUILT_IN:
        return text_of(name)
    try:
        return Path(name).read_text("utf-8")
    except FileNotFoundError:
        known = ", ".join(BUILT_IN)
        raise click.UsageError(f"'{name}' is no file, and none of {known}") from None
    except OSError as error:
        raise click.UsageError(f"'{name}': {error.strerror}") from None
    except ValueError:
        raise click.UsageError(f"'{name}' is no text in UTF-8") from None


def _changed(settings: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for each in settings:
        key, equals, value = each.partition("=")
        if not equals or key == "events":
            raise click.UsageError(f"--set '{each}' is no KEY=VALUE of one of the keys")
        found[key] = value
    return found


def _read(name: str, text: str, changed: Mapping[str, str]) -> "History":
    from groupkeeper.analytics.what_if.cast import BadHistory
    from groupkeeper.analytics.what_if.described import read_history

    try:
        return read_history(name, text, changed)
    except BadHistory as problem:
        raise click.UsageError(printable(f"{name}: {problem}")) from None


def _rows(
    history: "History", designs: Mapping[str, "Design"], as_json: bool
) -> Iterator[dict[str, Any]]:
    """Yield what each design costs; numbers are rounded for people."""
    from groupkeeper.analytics.what_if.designs import simulate as replayed
    from groupkeeper.analytics.what_if.replay import GivenUp

    for name, design in designs.items():
        try:
            found = replayed(history, design)
        except GivenUp as problem:
            raise CommandRefused(f"{history.name} under {name}: {problem}") from None
        if as_json:
            yield {"history": history.name, "design": name, **found.row()}
        else:
            yield {"design": name} | {key: f"{value:.0f}" for key, value in found.row().items()}
