"""Transcripts: a scene played from a text file, and what happened written beside the commands.

A line that starts with `> ` is a command; the lines below it, up to the next, are what happened.
`>` commands are a `Scene`'s methods, and their words its arguments::

    > form lea fred SAM               a Stable group; names in capitals are static members
    > join alice version=5            or knock, restart, sync, sync_all, heartbeat, leave, ...
    > advance 3s                      or 250ms
    > leave_as op entries=x:SAM,:TIM  member id and instance id, of each or either
    > config max_size=2               only as the first command

Expected lines begin with the name of somebody who got an answer (`<-`) or waits (`..`), `!`
for a fact, `+` for a record that became durable, `=` for a new state. Lines with `#` explain.
"""

from typing import Any

from tests.support.scene import Call, Scene, topics

NUMBERS = ("version", "session", "rebalance", "generation_id")
SHORT = {"fetch": "try_fetch", "describe": "try_describe"}


def play(text: str) -> str:
    """The transcript as it comes out when played anew: with unchanged behaviour, the same text."""
    played: list[str] = []
    scene, state = Scene(), "Dead"
    for line in text.splitlines():
        if not line.startswith("> "):
            if line.startswith("#"):
                played.append(line)
            elif not line and played and played[-1]:
                played.append("")
            continue
        played.append(line)
        if line.startswith("> config "):
            limits = _options(line.split()[2:])
            scene = Scene(**{name: int(value) for name, value in limits.items()})
            continue
        seen = len(scene.trace)
        call = _run(scene, line[2:])
        played += scene.trace[seen:]
        if isinstance(call, Call) and call.parked:
            played.append(f"{call.who} .. {call.api} waits")
        before, state = state, _state(scene)
        if before != state:
            played.append(f"= {state}")
        played.append("")
    return "\n".join(played).rstrip() + "\n"


def _state(scene: Scene) -> str:
    if scene.state == "Dead":
        return "Dead"
    return f"{scene.state}, generation {scene.group.generation}"


def _options(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _run(scene: Scene, command: str) -> Any:
    verb, *words = command.split()
    names: list[Any] = [int(w) if w.isdigit() else w for w in words if "=" not in w]
    options: dict[str, Any] = {}
    for name, value in _options(words).items():
        options |= _argument(name, value)
    if verb == "advance":
        return scene.advance(_milliseconds(names[0]))
    if verb == "hold":
        scene.hold = True
        return None
    if verb == "leave_as":
        names += options.pop("entries")
    return getattr(scene, SHORT.get(verb, verb))(*names, **options)


def _argument(name: str, value: str) -> dict[str, Any]:
    match name:
        case "topics":
            return {"protocols": {"range": topics(*value.split(","))}}
        case "owned":
            return {"protocols": {"range": topics("t", owned=int(value))}}
        case "protocols":
            return {"protocols": {each: topics("t") for each in value.split(",")}}
        case "plan":
            shares = (each.split(":") for each in value.split(","))
            return {"plan": {who: share.encode() for who, share in shares}}
        case "entries":
            return {"entries": [_entry(each) for each in value.split(",")]}
    return {name: int(value) if name in NUMBERS else value}


def _entry(text: str) -> tuple[str, str | None]:
    """`member:instance`, `:instance` or `member`."""
    member_id, colon, instance_id = text.partition(":")
    return member_id, instance_id if colon else None


def _milliseconds(text: str) -> int:
    if text.endswith("ms"):
        return int(text.removesuffix("ms"))
    return int(float(text.removesuffix("s")) * 1_000)
