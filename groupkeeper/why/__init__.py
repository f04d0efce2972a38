"""Explains rebalances in plain English: turns the rounds of a group's history into text.

Used by the command `why`, the HTTP API and the test broker. Pure functions: nothing here reads a
topic, a socket or a clock.
"""
