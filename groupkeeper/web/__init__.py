"""The JSON API under `/api/v1`, its stream of server-sent events, and the web page.

The HTTP port itself (connections, limits) is in `observe`. Nothing here is imported, or uses
memory, before the first request.
"""
