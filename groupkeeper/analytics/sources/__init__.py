"""Spark's data sources over the logs of a coordinator. The parser that they use is in `reading`."""
