"""The command `groupkeeper analyze`: plans, runs, prints and writes."""
