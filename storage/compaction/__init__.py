"""Compaction: of each key only the newest record is kept."""
