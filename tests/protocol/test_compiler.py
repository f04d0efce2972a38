"""Compiled functions can be looked at."""

import traceback

import pytest

from groupkeeper.protocol.compile_encode import Framing
from groupkeeper.protocol.compiler import decoder, encoder
from groupkeeper.protocol.errors import DecodeError
from groupkeeper.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse


def test_the_source_of_a_codec_can_be_read() -> None:
    assert "message.group_id = " in decoder(HeartbeatRequest, 0).__source__  # type: ignore[attr-defined]
    source = encoder(HeartbeatResponse, 4, Framing.RESPONSE).__source__  # type: ignore[attr-defined]
    assert source.count("pack") == 1


def test_tracebacks_show_the_lines_of_a_codec() -> None:
    with pytest.raises(DecodeError) as caught:
        decoder(HeartbeatRequest, 0)(b"\0\5", 0, 2)
    text = "".join(traceback.format_exception(caught.value))
    assert '"<HeartbeatRequest v0 decode>"' in text
    assert "raise bad_length(" in text


def test_a_version_that_is_not_there_is_refused() -> None:
    with pytest.raises(ValueError, match="HeartbeatRequest has versions 0 to 4, not 5"):
        decoder(HeartbeatRequest, 5)
    with pytest.raises(ValueError, match="not -1"):
        encoder(HeartbeatRequest, -1, Framing.BARE)
