"""An open log: its segments, their indexes, and reading both."""
