"""What is read out of the output of `kafka-dump-log` and of `groupkeeper dump`."""

from tests.suites.compacted_log import Dump, wrong_index

KAFKAS = """Dumping /data/__consumer_offsets-0/00000000000000000000.log
Log starting offset: 0
baseOffset: 3 lastOffset: 4 count: 2 baseSequence: -1 lastSequence: -1 producerId: -1 \
producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: false \
deleteHorizonMs: OptionalLong[1800] position: 0 CreateTime: 17 size: 140 magic: 2 \
compresscodec: none crc: 4711 isvalid: true
| offset: 3 CreateTime: 17 keySize: 9 valueSize: 9 sequence: -1 headerKeys: [] \
key: {"type":"1","data":{"group":"g"}} payload: {"version":"3","data":{"offset":7}}
| offset: 4 CreateTime: 17 keySize: 9 valueSize: -1 sequence: -1 headerKeys: [] \
key: {"type":"2","data":{"group":"g"}} payload: <DELETE>
baseOffset: 9 lastOffset: 9 count: 0 baseSequence: -1 lastSequence: -1 producerId: -1 \
producerEpoch: -1 partitionLeaderEpoch: 1 isTransactional: false isControl: false \
deleteHorizonMs: OptionalLong.empty position: 140 CreateTime: 21 size: 61 magic: 2 \
compresscodec: none crc: 815 isvalid: true
"""
OURS = """Dumping /data/__consumer_offsets-0/00000000000000000000.log
baseOffset: 3 lastOffset: 4 count: 2 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 1 \
isTransactional: false isControl: false CreateTime: 17 size: 140 compresscodec: none crc: 4711 \
isvalid: true
| offset: 3 CreateTime: 17 key: {"type":1,"data":{"group":"g"}} payload: {"version":3}
| offset: 4 CreateTime: 17 key: {"type":2,"data":{"group":"g"}} payload: null
baseOffset: 9 lastOffset: 9 count: 0 producerId: -1 producerEpoch: -1 partitionLeaderEpoch: 1 \
isTransactional: false isControl: false CreateTime: 21 size: 61 compresscodec: none crc: 815 \
isvalid: true
"""
OF_A_TOPIC = """Dumping /data/places-0/00000000000000000000.log
| offset: 0 CreateTime: 1 keySize: 5 valueSize: 9 sequence: -1 headerKeys: [] key: key 0 payload: x
| offset: 1 CreateTime: 1 keySize: 5 valueSize: -1 sequence: -1 headerKeys: [] key: key 1
"""
MISMATCH = """Dumping 0.timeindex
Found timestamp mismatch in :0.timeindex
  Index timestamp: %d, log timestamp: %d
"""


def dump(text: str) -> Dump:
    made = Dump()
    made.add(text.splitlines())
    return made


def test_both_say_the_same_in_their_own_words() -> None:
    kafkas, ours = dump(KAFKAS), dump(OURS)
    assert kafkas.differences(ours) == []
    assert kafkas.kinds == {"type 1": 1, "type 2, no value": 1}
    assert (kafkas.horizons, len(kafkas.empty)) == (1, 1)


def test_a_batch_a_record_and_a_file_that_differ_are_told() -> None:
    kafkas = dump(KAFKAS)
    [found] = kafkas.differences(dump(OURS.replace("crc: 815", "crc: 816")))
    assert "815" in found
    assert "816" in found
    assert len(kafkas.differences(dump(OURS.replace("payload: null", "payload: {}")))) == 2
    assert len(kafkas.differences(Dump())) == 3


def test_the_records_of_a_topic_have_no_payload_if_they_delete() -> None:
    assert dump(OF_A_TOPIC).kinds == {"record": 1, "record, no value": 1}


def test_what_an_index_has_wrong_is_told_but_for_the_time_of_an_empty_batch() -> None:
    kafkas = dump(KAFKAS)
    assert not list(wrong_index((MISMATCH % (21, -1)).splitlines(), kafkas))
    assert len(list(wrong_index((MISMATCH % (22, -1)).splitlines(), kafkas))) == 1
    assert len(list(wrong_index((MISMATCH % (21, 20)).splitlines(), kafkas))) == 1
    out_of_order = ["Found out of order timestamp in :0.timeindex", "  Index timestamp: 1"]
    assert len(list(wrong_index(out_of_order, kafkas))) == 1
