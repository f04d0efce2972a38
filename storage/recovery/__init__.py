"""Opening a log: reading its files, deciding how far they are sound, and what is kept."""
