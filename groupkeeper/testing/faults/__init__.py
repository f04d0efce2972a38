"""Faults by rule: which requests a rule matches, and what it does to them and their answers."""
