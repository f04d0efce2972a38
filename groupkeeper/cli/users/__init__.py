"""`groupkeeper users`: the users that log in with SCRAM."""
