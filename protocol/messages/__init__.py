"""The requests and responses, one module per API.

Classes and fields have Kafka's names, fields in snake case; versions and defaults are Kafka's.

Source: Kafka 4.1, the definitions in `clients/src/main/resources/common/message`.
"""
