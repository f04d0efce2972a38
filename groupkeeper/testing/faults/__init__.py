"""Fault injection by rules that match requests and change how they are handled or answered."""
