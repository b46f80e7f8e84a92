"""Looking into files whose bytes are packed, as far as the standard library can read them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from typing import IO

import apsw

# Unpacked bytes of one file. A file of ten thousand notes has 15 MB; more is an archive of something else, or a trap.
MOST_BYTES = 64 * 1024 * 1024
# A tar in gzip with something packed in it are three.
MOST_LAYERS = 3
_SQLITE, _ZIP = b"SQLite format 3\0", (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_GZIP, _BZIP2, _XZ, _LZMA = b"\x1f\x8b", b"BZh", b"\xfd7zXZ\0", b"\x5d\0\0"
# The bytes of a SQLite file that say that it has no log beside it.
_NO_LOG = b"\1\1"
_BLOCK = (b"1AY&SY", b"\x17rE8P\x90")
_TAR_AT, _TAR = 257, b"ustar"
_PDF, _BUNDLE = "PDF", "bundle of git"
# Frames that may come first in a file of Zstandard or LZ4.
_FRAMES = {bytes((first,)) + b"\x2a\x4d\x18": "Zstandard or LZ4" for first in range(0x50, 0x60)}
# A ZIP with something in front of it, such as a program that unpacks itself, is known by its end.
_ZIP_END, _ZIP_TAIL = b"PK\x05\x06", 1 << 16
# What nobody here can unpack, by its first bytes.
_CLOSED = _FRAMES | {
    b"7\x7f\x06": "log of a database",
    b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7": "log of a database",
    b"\x28\xb5\x2f\xfd": "Zstandard",
    b"\x04\x22\x4d\x18": "LZ4",
    b"7z\xbc\xaf\x27\x1c": "7-Zip",
    b"Rar!\x1a\x07": "RAR",
    b"\x1f\x9d": "compress",
    b"LZIP\x01": "lzip",
    b"\x89LZO\0": "lzop",
    b"MSCF\0\0\0\0": "cabinet",
    b"%PDF-": _PDF,
    b"\x89PNG\r\n\x1a\n": "PNG",
    b"PACK\0\0\0": "pack of git",
    b"# v2 git bundle\n": _BUNDLE,
    b"# v3 git bundle\n": _BUNDLE,
}
_BROKEN = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    apsw.Error,
    ArithmeticError,
    EOFError,
    LookupError,
    NotImplementedError,
    OSError,
    RuntimeError,
    ValueError,
)


class Closed(Exception):
    """A file cannot be looked into; the message says why."""


def is_packed(data: bytes) -> bool:
    """Whether a text may stand in these bytes and not be found in them, or not be cut out without breaking them."""
    return _unpacker(data) is not None or _closed(data) != ""


def is_squeezed(data: bytes) -> bool:
    """Whether the bytes are packed into fewer."""
    return is_packed(data) and not data.startswith(_SQLITE) and not _is_tar(data)


def unpacked(data: bytes) -> Iterator[bytes]:
    """The names and contents that are packed in some bytes, those of packed ones within too. Raises Closed."""
    return _unpacked(data, _Room(), 1)


class _Room:
    """How many bytes may still be unpacked."""

    def __init__(self) -> None:
        self.left = MOST_BYTES

    def read(self, stream: IO[bytes]) -> bytes:
        """All of a stream; raises Closed where that is more."""
        data = stream.read(self.left + 1)
        self.left -= len(data)
        if self.left < 0:
            raise Closed(f"unpacked it has more than {MOST_BYTES} bytes")
        return data


def _unpacked(data: bytes, room: _Room, layer: int) -> Iterator[bytes]:
    if name := _closed(data):
        raise Closed(f"nothing here can unpack it ({name})")
    unpack = _unpacker(data)
    if unpack is None:
        return
    if layer > MOST_LAYERS:
        raise Closed(f"it is packed more than {MOST_LAYERS} times")
    try:
        for part in unpack(data, room):
            yield part
            if unpack is not _rows or not _is_zlib(part):  # of many vectors some begin with any two bytes
                yield from _unpacked(part, room, layer + 1)
    except _BROKEN as error:
        raise Closed(f"it is damaged, cut off or encrypted ({type(error).__name__})") from error


def _closed(data: bytes) -> str:
    name = next((name for first, name in _CLOSED.items() if data.startswith(first)), "")
    return "" if name in (_PDF, _BUNDLE) and is_text(data) else name  # a note may begin so


def _unpacker(data: bytes) -> Callable[[bytes, _Room], Iterator[bytes]] | None:
    """What unpacks these bytes, None where they are not packed."""
    readers: tuple[tuple[bool, Callable[[bytes, _Room], Iterator[bytes]]], ...] = (
        (data.startswith(_SQLITE), _rows),
        (data.startswith(_ZIP), _zip),
        (data.startswith(_GZIP), _gzip),
        (data.startswith(_BZIP2) and data[4:10] in _BLOCK, _bzip2),
        (data.startswith((_XZ, _LZMA)), _lzma),
        (_is_tar(data), _tar),
        (_ends_as_zip(data), _zip),
    )
    return next((reader for fits, reader in readers if fits), _zlib if _is_zlib(data) else None)


def _is_tar(data: bytes) -> bool:
    return data[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR


def _ends_as_zip(data: bytes) -> bool:
    return _ZIP_END in data[-_ZIP_TAIL:] and zipfile.is_zipfile(io.BytesIO(data))


def _is_zlib(data: bytes) -> bool:
    """Two bytes that any text may begin with: so what they promise is tried."""
    if len(data) < 2 or data[0] & 0x8F != 0x08 or (data[0] << 8 | data[1]) % 31 or data[1] & 0x20:
        return False
    stream = zlib.decompressobj()
    try:
        stream.decompress(data, MOST_BYTES)
    except zlib.error:
        return data[0] == 0x78 and not is_text(data)
    return stream.eof or not is_text(data)


def is_text(data: bytes) -> bool:
    """Whether the bytes are UTF-8."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _gzip(data: bytes, room: _Room) -> Iterator[bytes]:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
        yield room.read(stream)  # type: ignore[arg-type]  # it reads bytes as any binary file


def _bzip2(data: bytes, room: _Room) -> Iterator[bytes]:
    with bz2.BZ2File(io.BytesIO(data)) as stream:
        yield room.read(stream)


def _lzma(data: bytes, room: _Room) -> Iterator[bytes]:
    with lzma.LZMAFile(io.BytesIO(data)) as stream:
        yield room.read(stream)


def _zlib(data: bytes, room: _Room) -> Iterator[bytes]:
    stream = zlib.decompressobj()
    yield room.read(io.BytesIO(stream.decompress(data, room.left + 1)))
    if not stream.eof:
        raise EOFError
    yield stream.unused_data


def _zip(data: bytes, room: _Room) -> Iterator[bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        for info in opened.infolist():
            yield info.filename.encode()
            with opened.open(info) as stream:
                yield room.read(stream)


def _tar(data: bytes, room: _Room) -> Iterator[bytes]:
    """The files that are packed themselves: all others stand in the bytes as they are."""
    with tarfile.open(fileobj=io.BytesIO(data), mode="r:") as opened:
        for member in opened:
            stream = opened.extractfile(member) if member.isfile() else None
            if stream and is_packed(part := room.read(stream)):
                yield part


def _rows(data: bytes, room: _Room) -> Iterator[bytes]:
    """The values of all rows, since a long one is cut over several pages; names stand in the bytes as they are."""
    connection = apsw.Connection(":memory:")
    try:
        connection.deserialize("main", data[:18] + _NO_LOG + data[20:])
        for name in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            quoted = str(name[0]).replace('"', '""')
            for row in connection.execute(f'SELECT * FROM "{quoted}"'):
                yield from (room.read(io.BytesIO(_bytes(value))) for value in row if isinstance(value, (str, bytes)))
    finally:
        connection.close()


def _bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value
