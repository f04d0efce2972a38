"""What the records of Kafka's internal logs hold. Batches are in `protocol/record_batch.py`."""
