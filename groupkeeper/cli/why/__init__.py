"""`groupkeeper why`: why a group rebalanced."""
