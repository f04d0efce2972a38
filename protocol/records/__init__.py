"""What the records of Kafka's internal logs hold. The batches around them are `protocol/record_batch.py`."""
