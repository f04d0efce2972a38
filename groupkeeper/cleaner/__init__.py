"""Compacts logs in the background: selects the log and the time, and runs the process."""
