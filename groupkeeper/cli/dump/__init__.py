"""`groupkeeper dump`: the files of a data directory as text."""
