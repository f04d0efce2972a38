"""From records to tables: what happened to groups, partition by partition of the log. No Spark
here.
"""
