"""A client of Kafka clusters, for commands and tools; the server does not import it.

    async with Client("localhost:9092") as client:
        response = await client.call(ListGroupsRequest())

Decision 013 says what is aiokafka's and what is ours.
"""

from groupkeeper.client.client import CallFailed, Client, NotKafka, Security

__all__ = ["CallFailed", "Client", "NotKafka", "Security"]
