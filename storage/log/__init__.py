"""An open log: its segments, their indexes, and how both are read."""
