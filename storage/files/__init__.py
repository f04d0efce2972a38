"""File systems: the kernel's, and an equivalent in memory."""
