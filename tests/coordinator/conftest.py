"""The cast of these tests, and their vocabulary (`tests/support/scene.py`).

`lea` leads her group and `fred` follows; `SAM` and `TIM`, in capitals, are static members
(KIP-345): their instance id is their name. `zoe` comes to start a rebalance and goes again; `ann`
and `bea`, or `alice` and `bob`, are any two dynamic members. `admin` and `anyone` are clients that
are not members. A member id is the name and a number: `lea-1` is her first one.

A person *knocks* with one JoinGroup, which may be answered MEMBER_ID_REQUIRED, and *joins* with as
many as it takes (KIP-394); *restarts* without remembering its member id; *syncs*, *leaves* and
*commits*. `scene.form(...)` makes a Stable group, `in_state("Stable")` the usual group `FOUR` in a
state. A call is *parked* while it waits for its answer; its *outcome* is the name of its error.
"""
