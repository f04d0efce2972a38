"""The clock of a test broker, which a test can stop and move forward."""
