"""A Kafka client for the commands and tools; the server does not import it.

    async with Client("localhost:9092") as client:
        response = await client.call(ListGroupsRequest())

Decision 013 explains which parts come from aiokafka.
"""

from groupkeeper.client.client import CallFailed, Client, NotKafka, Security

__all__ = ["CallFailed", "Client", "NotKafka", "Security"]
