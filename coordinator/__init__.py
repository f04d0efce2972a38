"""The decisions of a group coordinator: pure, synchronous, without clock, randomness or I/O."""
