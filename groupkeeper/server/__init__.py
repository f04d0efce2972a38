"""The server: sockets, clocks, threads and the event loop around the coordinator.

Not a place for decisions: what a group does is settled in `coordinator`.
"""
