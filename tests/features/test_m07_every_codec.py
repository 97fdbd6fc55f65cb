"""M07: idempotence with every codec: the check reads the batch header, and nothing is decompressed.

Shown three ways: real clients whose acknowledgement gets lost; a broker without any decompressor; and batches whose
compressed part is rubbish under a right checksum, which could not be compared in any way but by their headers.
"""

from struct import pack

import pytest
from crc32c import crc32c

import semel
from semel.broker.runtime.intercept import DropResponse
from semel.errors import ProtocolError
from semel.protocol import compression, lz4_frames
from semel.protocol.compression import Codec
from semel.protocol.error_codes import ErrorCode
from semel.protocol.record_batch import HEADER_BYTES, decode_records, iter_headers
from tests.clients.choice import CODECS, NAMES, OLD_JAVA, can
from tests.clients.drivers.interface import Driver, Sent
from tests.support.idempotent import RawProducer
from tests.support.stored import stored_bytes, stored_headers

TRIES = [(name, codec) for name in (*NAMES, OLD_JAVA) for codec in CODECS if can(name, codec)]
COMPRESSING = [codec for codec in Codec if codec is not Codec.NONE]
RECORDS = [Sent(key=b"%d" % number, value=b"compressible " * 20) for number in range(20)]
CRC_AT = 17
CRC_FROM = 21


def rubbish(batch: bytes) -> bytes:
    """Overwrite everything after the header and make the checksum right again."""
    changed = bytearray(batch)
    changed[HEADER_BYTES:] = b"\xa5" * (len(batch) - HEADER_BYTES)
    changed[CRC_AT:CRC_FROM] = pack(">I", crc32c(bytes(changed[CRC_FROM:])))
    return bytes(changed)


@pytest.mark.quick(8)
@pytest.mark.parametrize(("driver", "codec"), TRIES, indirect=["driver"])
def test_a_lost_acknowledgement_with_every_client(
    cluster: semel.Cluster, driver: Driver, topic: str, codec: str
) -> None:
    lost = cluster.intercept("Produce", DropResponse(), times=1)
    assert driver.produce(topic, RECORDS, codec=codec, idempotent=True) == list(range(len(RECORDS)))
    assert lost.fired == 1
    assert codec in {header.codec.name.lower() for header in stored_headers(cluster, topic)}
    assert [one.sent for one in driver.consume(topic, {0: 0}, len(RECORDS))] == RECORDS
    assert driver.offsets(topic, 0) == (0, len(RECORDS))


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("driver", ["java", "confluent"], indirect=True)
def test_broken_without_idempotence(cluster: semel.Cluster, driver: Driver, topic: str, codec: str) -> None:
    lost = cluster.intercept("Produce", DropResponse(), times=1)
    driver.produce(topic, RECORDS, codec=codec)
    assert lost.fired == 1
    assert driver.offsets(topic, 0)[1] > len(RECORDS)


@pytest.mark.parametrize("codec", Codec)
def test_a_broker_without_decompressors(
    cluster: semel.Cluster, topic: str, codec: Codec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The brokers run in this process: with the way to cramjam closed, whoever decompresses fails."""
    producer = RawProducer(cluster, topic)
    first = producer.send(0, 5, codec=codec)

    def closed(*_: object, **__: object) -> None:
        raise AssertionError("something was decompressed")

    batches: list[bytes] = []

    def remember(batch: bytes) -> bytes:
        batches.append(batch)
        for module in (compression, lz4_frames):
            monkeypatch.setattr(module, "cramjam", closed)
        return batch

    again = producer.send(0, 5, codec=codec, change=remember)
    assert (again.error_code, again.base_offset) == (ErrorCode.NONE, first.base_offset)
    assert len(stored_headers(cluster, topic)) == 1
    if codec is not Codec.NONE:
        ((_, header),) = iter_headers(batches[0])
        with pytest.raises(AssertionError, match="decompressed"):
            decode_records(batches[0], header)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_batches_that_nobody_can_decompress(cluster: semel.Cluster, topic: str, codec: Codec) -> None:
    producer = RawProducer(cluster, topic)
    assert producer.send(0, 5, codec=codec, change=rubbish).base_offset == 0
    assert producer.send(5, 5, codec=codec, change=rubbish).base_offset == 5
    assert producer.send(0, 5, codec=codec, change=rubbish).base_offset == 0, "known by its header"
    assert producer.send(11, codec=codec, change=rubbish).error_code == ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    stored = stored_bytes(cluster, topic)
    headers = list(iter_headers(stored))
    assert [(header.base_offset, header.codec) for _, header in headers] == [(0, codec), (5, codec)]
    with pytest.raises(ProtocolError):
        decode_records(stored, headers[0][1])
