"""Opening a log: what its files hold, how far they are sound, and what is kept."""
