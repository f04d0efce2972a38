"""The file system: calls of the kernel, and the same in memory."""
