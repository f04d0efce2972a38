"""The APIs of configs: of topics, and of the broker, which are its settings."""
