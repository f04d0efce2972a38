"""Identities of clients, and their rights.

Below connections and APIs: it authenticates and authorizes, and knows neither sockets nor handlers.
The coordinator sees the name of a principal (`Peer.principal`), and decides nothing by it.
"""
