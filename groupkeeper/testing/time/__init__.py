"""The time of a test broker: it stands still, goes on, and is moved ahead."""
