"""Reads the fields of a coordinator's record one after the other, in the plain and in the flexible encoding."""

from semel.errors import ProtocolError, UnsupportedVersionError

# KIP-915: from here on values have compact lengths and tagged fields.
FLEXIBLE_VALUE_VERSION = 4
VALUE_VERSION_MAX = 4


class FieldReader:
    """Reads fields one after the other; anything that does not fit is a ProtocolError."""

    def __init__(self, data: bytes) -> None:
        """Start at the first field."""
        self._data = data
        self._position = 0
        self._flexible = False

    def value_version(self, kind: str) -> int:
        """Read a value's version, which decides how lengths are written."""
        version = self.int16()
        if not 0 <= version <= VALUE_VERSION_MAX:
            raise UnsupportedVersionError(f"version {version} of a group coordinator's {kind} value is not known here")
        self._flexible = version >= FLEXIBLE_VALUE_VERSION
        return version

    def int16(self) -> int:
        """Read two bytes."""
        return int.from_bytes(self._take(2), signed=True)

    def int32(self) -> int:
        """Read four bytes."""
        return int.from_bytes(self._take(4), signed=True)

    def int64(self) -> int:
        """Read eight bytes."""
        return int.from_bytes(self._take(8), signed=True)

    def text(self) -> str:
        """Read a string that must be there."""
        text = self.nullable_text()
        if text is None:
            raise ProtocolError("a group record has null where a string must be")
        return text

    def nullable_text(self) -> str | None:
        """Read a string or null."""
        # Both encodings have a negative length for null: the compact one stores the
        # length plus one, so 0 comes out as -1.
        length = self._compact_length() if self._flexible else self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("a string in a group record is not UTF-8") from error

    def blob(self) -> bytes:
        """Read bytes."""
        length = self.array_length()
        return self._take(length)

    def array_length(self) -> int:
        """Read how many elements or bytes follow."""
        length = self._compact_length() if self._flexible else self.int32()
        # An element takes a byte at least, so nothing larger than the record itself is ever allocated.
        if not 0 <= length <= len(self._data) - self._position:
            raise ProtocolError(f"a group record gives a length of {length}, more than it has bytes")
        return length

    def skip_tags(self) -> None:
        """Pass over tagged fields, which are not known here."""
        if not self._flexible:
            return
        for _ in range(self._unsigned_varint()):
            self._unsigned_varint()
            self._take(self._unsigned_varint())

    def _compact_length(self) -> int:
        return self._unsigned_varint() - 1

    def _unsigned_varint(self) -> int:
        value = 0
        # Five bytes of seven bits hold 32 bits.
        for shift in range(0, 35, 7):
            byte = self._take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise ProtocolError("a varint in a group record is longer than 5 bytes")

    def _take(self, count: int) -> bytes:
        end = self._position + count
        # A negative count cannot get here: lengths are checked where they are read, and fixed sizes are positive.
        if end > len(self._data):
            raise ProtocolError("a group record ends in the middle of a field")
        taken = self._data[self._position : end]
        self._position = end
        return taken
