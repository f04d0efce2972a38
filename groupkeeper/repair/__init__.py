"""Finds out what is readable in damaged data directories, and keeps that.

`survey.py` looks, and changes nothing; `writing.py` repairs what a survey has found. Both open logs
with the storage's own code, and groups are built from them by the coordinator's: what a survey says
is what a server serves afterwards. The command is in `cli/`.
"""
