"""Explains rebalances in plain English: formats the events and rounds of a group as text.

Used by the command `why`, the HTTP API and the test broker. Pure functions: nothing here reads a
topic, a socket or a clock.
"""
