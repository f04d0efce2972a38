"""Compacts logs in the background: which log and when, and the process that does it."""
