"""Batches that transcripts produce, written as words: their number of records first.

3 records                   a plain batch with the time of the broker's clock
3 keyed records             with keys
3 records now+2min          each a millisecond after the one before; also now-2min
3 records untimed           without timestamps
3 records gzip              compressed
3 records of 7,0,2          of producer 7 with epoch 0, from sequence 2 on
3 records appended          the header says LogAppendTime
3 records understated       the header says that none is later than the broker's clock
3 records control           which only brokers may write
3 records magic-3           of a format that does not exist
3 records cut               without the last byte
3 records and 1 records     two batches
"""

import re

from crc32c import crc32c

from groupkeeper.protocol.record_batch import CRC_START
from tests.parity.people import milliseconds
from tests.topics.scene import COMPRESSIONS, batch

_FORM = re.compile(
    r"(?P<count>\d+) (?P<keyed>keyed )?records(?: (?:(?P<untimed>untimed)|now(?P<apart>[+-]\w+)"
    rf"|(?P<compression>{'|'.join(COMPRESSIONS)})|of (?P<producer>\d+),(?P<epoch>\d+),"
    r"(?P<sequence>\d+)|(?P<appended>appended)|(?P<control>control)|magic-(?P<magic>\d)"
    r"|(?P<cut>cut)|(?P<understated>understated)))*"
)
_MAGIC_AT, _CRC_AT, _MAX_TIMESTAMP_AT = 16, 17, 35
_ATTRIBUTES = {"appended": 0x08, "control": 0x20}


def produced(text: str, now: int) -> bytes:
    """The bytes; `now` is the broker's time in Unix milliseconds. Raises ValueError."""
    return b"".join(_batch(each, now) for each in text.split(" and "))


def _batch(text: str, now: int) -> bytes:
    form = _FORM.fullmatch(text)
    if form is None:
        raise ValueError(f"not the words for a batch: {text}")
    values = ["value"] * int(form["count"])
    keys = [b"key"] * len(values) if form["keyed"] else []
    apart = form["apart"] or "+0ms"
    time = now + milliseconds(apart[1:]) * (-1 if apart[0] == "-" else 1)
    of = {"id": int(form["producer"]), "epoch": int(form["epoch"])} if form["producer"] else {}
    raw = bytearray(
        batch(
            *values,
            keys=keys,
            compression=form["compression"] or "none",
            timestamp=-1 if form["untimed"] else time,
            step=0 if form["untimed"] else 1,
            sequence=int(form["sequence"] or -1),
            **of,
        )
    )
    raw[CRC_START + 1] |= sum(flag for name, flag in _ATTRIBUTES.items() if form[name])
    if form["understated"]:
        raw[_MAX_TIMESTAMP_AT : _MAX_TIMESTAMP_AT + 8] = now.to_bytes(8, "big")
    raw[_CRC_AT:CRC_START] = crc32c(bytes(raw[CRC_START:])).to_bytes(4, "big")
    raw[_MAGIC_AT] = int(form["magic"] or raw[_MAGIC_AT])
    return bytes(raw[:-1] if form["cut"] else raw)
