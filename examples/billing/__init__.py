"""A small service that charges orders: what the examples test.

It reads orders from the topic `orders`, charges each of them, and commits it afterwards. The same
service is written three times, once for each client library.
"""
