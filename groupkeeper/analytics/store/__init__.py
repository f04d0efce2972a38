"""The folder of tables that `groupkeeper analyze --out` writes and continues: Parquet files by day,
and how far each log was read (docs/analytics.md, "Tables on disk").
"""
