"""The server's settings under Kafka's names, from files, variables and the command line."""
