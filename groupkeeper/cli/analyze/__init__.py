"""`groupkeeper analyze`: the history of groups, from their logs."""
