"""`groupkeeper analyze`: what happened to groups, from their logs."""
