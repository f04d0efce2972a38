"""What an operator sees: log lines, metrics, and the HTTP port that shows them."""
