"""A user's program in strict types: it has packages with our folders' names, and uses ours."""

from groupkeeper import __version__
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest
from groupkeeper.protocol.record_batch import Record, decode_records, read_header
from storage import OWNER


def values(batch: bytes) -> list[bytes | None]:
    records: list[Record] = list(decode_records(batch, read_header(batch)))
    return [record.value for record in records]


def heartbeat(group_id: str, generation: int) -> HeartbeatRequest:
    return HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=OWNER)


version: str = __version__
generation: int = heartbeat("billing", 1).generation_id
