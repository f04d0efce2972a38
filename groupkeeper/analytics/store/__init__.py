"""The folder of tables that `groupkeeper analyze --out` writes, and goes on with: Parquet files by
day, and how far each log was read (docs/analytics.md, "Tables on disk").
"""
