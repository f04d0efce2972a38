"""The conversation of clients and a test broker, as text."""
