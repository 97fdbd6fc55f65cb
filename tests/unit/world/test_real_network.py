"""What only the real network has: TLS, resets, the time limit of connecting, and memory that follows what arrives."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
import struct
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from semel.errors import ConnectionFailure
from semel.world import Connection
from semel.world.frames import FRAME_START_BYTES_MIN
from semel.world.real_connection import HOLD_BYTES_MAX
from tests.unit.world.stages import FRAME_BYTES_MAX, Collector, Scene, echo, framed, play, read

pytestmark = pytest.mark.parametrize("stage", ["asyncio", "uvloop"])


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Make a key and a certificate for 127.0.0.1 that signs itself."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "broker")])
    now = datetime.datetime.now(datetime.UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    folder = tmp_path_factory.mktemp("tls")
    (folder / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    (folder / "certificate.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    return folder / "certificate.pem", folder / "key.pem"


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


async def connect_tls(scene: Scene, port: int, context: ssl.SSLContext) -> Connection:
    connection = await scene.client.connect(
        scene.host, port, frame_bytes_max=FRAME_BYTES_MAX, timeout_ms=5000, ssl_context=context
    )
    scene.connections.append(connection)
    return connection


def test_tls_carries_small_and_big_frames(stage: str, certificate: tuple[Path, Path]) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo, ssl_context=server_context(certificate))
        connection = await connect_tls(scene, listener.port, ssl.create_default_context(cafile=certificate[0]))
        bodies = [b"small", b"", bytes(range(256)) * 40_000, *(bytes([n]) * 5000 for n in range(100))]
        for body in bodies:
            connection.write(struct.pack(">i", len(body)), body)
        for body in bodies:
            assert await read(connection) == body
        connection.close()
        await listener.close()

    play(stage, scenario)


def test_a_certificate_that_nobody_trusts_is_refused(stage: str, certificate: tuple[Path, Path]) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo, ssl_context=server_context(certificate))
        with pytest.raises(ConnectionFailure, match=r"(?i)certificate.verify.failed"):
            await connect_tls(scene, listener.port, ssl.create_default_context())
        await listener.close()

    play(stage, scenario)


def test_a_reset_is_a_failure_after_the_frames_that_came(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        collector = Collector()
        listener = await scene.listen(collector.serve)
        with socket.create_connection((listener.host, listener.port)) as raw:
            raw.sendall(framed(b"whole"))
            await scene.until(lambda: collector.frames == [b"whole"])
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert isinstance(await collector.endings.get(), ConnectionFailure)
        await listener.close()

    play(stage, scenario)


def test_what_was_asked_before_the_peer_stopped_sending_is_answered(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        async def answer_late(connection: Any) -> None:
            question = await read(connection)
            await scene.until(lambda: bool(connection._ended))
            connection.write(framed(question or b""))

        listener = await scene.listen(answer_late)
        reader, writer = await asyncio.open_connection(listener.host, listener.port)
        writer.write(framed(b"question"))
        writer.write_eof()
        assert await reader.read() == framed(b"question")
        writer.close()
        await writer.wait_closed()
        await listener.close()

    play(stage, scenario)


def test_little_is_held_back_however_many_frames_wait(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        held: list[int] = []

        async def answer_much(connection: Any) -> None:
            await scene.until(lambda: len(connection._frames) == 10)
            while (frame := await connection.read_frame()) is not None:
                connection.write(framed(bytes(frame)), bytes(40_000 - 5))
                held.append(connection._held_bytes)

        listener = await scene.listen(answer_much)
        connection = await scene.connect(listener)
        connection.write(*(framed(bytes([n])) for n in range(10)))
        await scene.until(lambda: len(held) == 10)
        assert 0 < max(held) <= HOLD_BYTES_MAX
        await listener.close()

    play(stage, scenario)


def test_connecting_has_a_limit(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            context = ssl.create_default_context()  # a handshake that nobody answers
            with pytest.raises(ConnectionFailure, match="no answer within 50 ms"):
                await scene.client.connect(
                    "127.0.0.1", silent.getsockname()[1], frame_bytes_max=1, timeout_ms=50, ssl_context=context
                )

    play(stage, scenario)


def test_declaring_much_and_sending_little_costs_little(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        served: list[Any] = []

        async def wait(connection: Connection) -> None:
            served.append(connection)
            await connection.read_frame()

        listener = await scene.listen(wait)
        connection = await scene.connect(listener)
        connection.write(struct.pack(">i", 30_000_000), b"little")
        await scene.until(lambda: bool(served) and served[0]._partial is not None)
        size_bytes = len(served[0]._partial)
        assert size_bytes <= FRAME_START_BYTES_MIN
        await listener.close()

    play(stage, scenario)


def test_small_packets_are_not_delayed(stage: str) -> None:
    async def scenario(scene: Scene) -> None:
        listener = await scene.listen(echo)
        connection: Any = await scene.connect(listener)
        raw = connection._transport.get_extra_info("socket")
        assert raw.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        await listener.close()

    play(stage, scenario)


def test_a_peer_that_never_reads_is_cut_off_after_closing(stage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("semel.world.real_connection.LINGER_MS_MAX", 20)

    async def scenario(scene: Scene) -> None:
        served: list[Any] = []

        async def never_read(connection: Connection) -> None:
            served.append(connection)
            await asyncio.Event().wait()

        listener = await scene.listen(never_read)
        connection: Any = await scene.connect(listener)
        for _ in range(32):
            connection.write(bytes(1 << 20))
        connection.close()
        await connection.wait_lost()
        await listener.close(grace_ms=0)

    play(stage, scenario)
