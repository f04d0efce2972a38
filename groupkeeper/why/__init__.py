"""What group events tell: rounds, and words for people. Pure: events in, rounds and text out.

For the command `why`, and for whatever else shows rebalances. Nothing here reads a topic, a socket
or a clock.
"""
