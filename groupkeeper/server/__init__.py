"""The process: assembles the parts, opens the data directory, starts and stops."""
