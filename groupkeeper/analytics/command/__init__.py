"""What `groupkeeper analyze` does: plan, run, print and write."""
