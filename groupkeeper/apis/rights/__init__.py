"""Guards: handlers in front of the handlers of APIs, which ask the authorizer for the rights of a
row of `apis/table.py`. Made at the start, and imported, only if there is an authorizer.
"""
