"""`python -m tests.chaos`: every attack on a server, and what it did to the others; then damage to
data directories, and whether anything is lost in silence.

Exit code 0: all good. 1: a verdict is bad. 2: no such attack, or no server could be started.
"""

import argparse
import difflib
import resource
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from tests.chaos import mutants
from tests.chaos.catalogue import ATTACKS, FAMILIES
from tests.chaos.damage import run as damage
from tests.chaos.run import Run
from tests.chaos.server import ServerError
from tests.chaos.stream import run as stream
from tests.chaos.target import Attack

BAD, CANNOT_RUN = 1, 2

DESCRIPTION = f"""\
Play attacks on a real server and measure what they do to those who behave.

Each attack has a fresh server, and processes of its own. A canary beats every 5 ms, a
bystander commits, produces and fetches; the stall is the canary's slowest beat, without its
waiting for a core. An attack is good if the stall stays under 50 ms, the memory within what the
attack may take, the log readable, and if neither of the two ever sees an error. What exceeds a
limit by so little that a busy machine can be the reason is played again, at most three times in
all.

The family damage is of another kind. {damage.DESCRIPTION}

`stream` is a run of its own, of a server and a streaming job that are killed; see `stream --help`.

Exit code 0: all good. 1: a verdict is bad. 2: no such attack, or no server could be started."""
EXAMPLES = """\
  python -m tests.chaos                          everything, some fifteen minutes
  python -m tests.chaos --list                   what there is
  python -m tests.chaos connections metadata-all a family, and one more
  python -m tests.chaos --fuzz-seconds 600 fuzz-cut
  python -m tests.chaos damage --damages 50 --seed 7
  python -m tests.chaos damage --only 17,23 --keep kept   two, and what is left of them
  python -m tests.chaos stream --minutes 10
  python -m tests.chaos mutants                  whether attacks notice servers without defences"""
DAMAGE = "damage"
"""The family that is no attack."""
STREAM = "stream"
"""Has options of its own, and needs the extra `analytics`."""
MUTANTS = "mutants"
"""Has names of attacks behind it."""


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="an attack or a family (all)")
    parser.add_argument("--list", action="store_true", help="say what each attack is")
    parser.add_argument("--tries", type=int, default=3, help="play it so often at most (3)")
    parser.add_argument(
        "--fuzz-seconds", type=float, default=60.0, metavar="SECONDS", help="of fuzz-cut (60)"
    )
    parser.add_argument(
        "--data-dir", type=Path, help="where servers keep their data (the temporary folder)"
    )
    damage.add_options(parser)
    options = parser.parse_args(arguments)
    options.damage = not options.names or DAMAGE in options.names
    names = [name for name in options.names if name != DAMAGE]
    options.attacks = _chosen(parser, names) if names or not options.names else []
    return options


def _chosen(parser: argparse.ArgumentParser, names: Sequence[str]) -> list[Attack]:
    """The attacks of these names and families, in the catalogue's order; all without a name."""
    families = {family.replace(" ", "-"): family for family in FAMILIES}
    wanted: set[str] = set()
    for name in names:
        if name not in ATTACKS and name not in families:
            close = difflib.get_close_matches(name, [*ATTACKS, *families, DAMAGE], 3)
            hint = f"did you mean {' or '.join(close)}?" if close else "see --list"
            parser.error(f"no such attack: {name}; {hint}")
        wanted |= {name} & ATTACKS.keys()
        family = families.get(name)
        wanted |= {each.name for each in ATTACKS.values() if each.family == family}
    return [attack for attack in ATTACKS.values() if not names or attack.name in wanted]


def main(arguments: list[str]) -> int:
    if arguments[:1] == [STREAM]:
        return stream.main(arguments[1:])
    if arguments[:1] == [MUTANTS]:
        return mutants.main(arguments[1:])
    options = _options(arguments)
    console = Console()
    if options.list:
        for attack in options.attacks:
            text = f"{attack.family:15} {attack.name:24} {attack.about}"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
        if options.damage:
            text = f"{DAMAGE:15} {'':24} {options.damages} damages to data directories"
            console.print(text, highlight=False, markup=False, soft_wrap=True)
        return 0
    _raise_file_limit()
    with tempfile.TemporaryDirectory(prefix="groupkeeper-chaos-", dir=options.data_dir) as folder:
        try:
            plan = options.tries, options.fuzz_seconds, options.checkout.resolve()
            run = Run(console, Path(folder), *plan)
            bad = run.play(options.attacks) if options.attacks else 0
            if options.damage:
                bad += damage.play(damage.plan_of(options), Path(folder), console)
            return BAD if bad else 0
        except (ServerError, OSError) as error:
            console.print(str(error), style="red", highlight=False, markup=False)
            return CANNOT_RUN


def _raise_file_limit() -> None:
    """As many open files as allowed, for this process and all that it starts."""
    _soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
