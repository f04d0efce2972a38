"""The process: puts the parts together, opens the data directory, starts and stops."""
