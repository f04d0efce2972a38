"""What is fast: Groupkeeper beside a bare responder and beside Apache Kafka's broker, in one run.

Not a part of the product and not a test: nothing here fails because something is slow. README.md
says what each figure means; `python -m benchmarks --help` says what can be chosen.
"""
