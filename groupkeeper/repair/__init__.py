"""Repairs damaged data directories, keeping everything that is still readable.

`survey.py` finds the damage without changing anything; `writing.py` repairs it. Both use the
server's own code to open logs and build groups, so a survey reports exactly what a server will
serve after the repair. The command is in `cli/`.
"""
