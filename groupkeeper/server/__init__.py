"""The process: what it is made of, its data directory, its event loop, start and stop."""
