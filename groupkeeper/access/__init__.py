"""Who is at the other end of a connection, and what they may do.

Below connections and APIs: it authenticates and authorizes, and knows neither sockets nor handlers.
The coordinator sees the name of a principal (`Peer.principal`), and decides nothing by it.
"""
