"""From folders of segments to Arrow record batches: planning, parsing and what damage leaves. No
Spark here.
"""
