"""The log on disk: bytes in, bytes out. Knows no groups."""
