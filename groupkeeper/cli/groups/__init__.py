"""`groupkeeper groups`: consumer groups of any Kafka cluster."""
