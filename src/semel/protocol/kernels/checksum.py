"""CRC-32C inside kernels: of bytes that are in the cache, without a call from Python for every batch.

Why: the crc32 instruction takes eight bytes a cycle, so that checksum and copy of a large batch cost the same.
     Carry-less multiplication takes more: a block times x^n mod P, added to the block n bits further on, leaves the
     checksum of the whole as it is. So all blocks are folded into the last one, and only that one goes through the
     crc32 instruction, with the bytes that fill no block.
     Where the CPU has no such instructions, `IN_KERNELS` is false and callers use the `crc32c` package.
"""

from typing import Any

from semel.protocol.kernels.jit import called, cgutils, cpu_has, inlined, intrinsic, ir, types
from semel.protocol.kernels.memory import copy_bytes, load_byte, load_item64, store_item64

_Lowered = tuple[Any, Any]

_POLYNOMIAL_REFLECTED = 0x82F63B78
# A multiplication takes several cycles, so the CPU is given four at a time that do not wait for each other.
_ACCUMULATORS = 4
_ONES = 0xFFFFFFFF
_I32, _I64 = ir.IntType(32), ir.IntType(64)


def block_bytes(words: int) -> int:
    """Return the size of a block of four vectors."""
    return _ACCUMULATORS * words * 8


def _words() -> int:
    """Return the widest vectors that this CPU multiplies, in 64-bit numbers; zero when it cannot."""
    # `sse4.2` brings the crc32 instruction, `pclmul` the multiplication without carries.
    if not (cpu_has("sse4.2") and cpu_has("pclmul")):
        return 0
    if not cpu_has("vpclmulqdq"):
        return 2
    # The wide multiplication comes for 256 bits, and for 512 where the processor has registers of that size.
    return 8 if cpu_has("avx512f") else 4


WORDS = _words()
IN_KERNELS = WORDS > 0
BLOCK_BYTES = block_bytes(WORDS)
IN_STATE = -1
"""Stands for a checksum that is kept in memory."""


def _power_of_x(exponent: int) -> int:
    """Return x^exponent mod P with its bits reflected, as the CRC has them."""
    power = 1 << 31
    for _ in range(exponent):
        power = (power >> 1) ^ (_POLYNOMIAL_REFLECTED if power & 1 else 0)
    return power


def _call(builder: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def _crc_step(builder: Any, crc: Any, word: Any) -> Any:
    return _call(builder, "llvm.x86.sse42.crc32.64.64", _I64, [crc, word])


class _Folder:
    """Writes the instructions that fold blocks of four vectors, each of `words` 64-bit numbers."""

    def __init__(self, builder: Any, words: int) -> None:
        self._builder = builder
        self._vector = ir.VectorType(_I64, words)
        self._name = f"llvm.x86.pclmulqdq{'' if words == 2 else f'.{64 * words}'}"
        bits = _ACCUMULATORS * words * 64
        # Multiplying reflected numbers of 64 and 32 bits leaves a factor of x^33, which the powers make up for.
        powers = [_power_of_x(bits + 31), _power_of_x(bits - 33)]
        self._powers = ir.Constant(self._vector, powers * (words // 2))
        self._words = words
        self.block_bytes = ir.Constant(_I64, block_bytes(words))

    def load(self, address: Any) -> list[Any]:
        """Load one block."""
        pointer = self._builder.inttoptr(address, self._vector.as_pointer())
        places = [self._builder.gep(pointer, [ir.Constant(_I64, index)]) for index in range(_ACCUMULATORS)]
        return [self._builder.load(place, align=1) for place in places]

    def store(self, block: list[Any], address: Any, *, streamed: bool = False) -> None:
        """Store one block; past the cache where the address is aligned."""
        pointer = self._builder.inttoptr(address, self._vector.as_pointer())
        for index, vector in enumerate(block):
            place = self._builder.gep(pointer, [ir.Constant(_I64, index)])
            stored = self._builder.store(vector, place, align=8 * self._words if streamed else 1)
            if streamed:
                stored.set_metadata("nontemporal", self._builder.module.add_metadata([ir.Constant(_I32, 1)]))

    def start(self, block: list[Any], crc: Any) -> list[Any]:
        """Add the checksum of what came before to the first block."""
        zero = ir.Constant(self._vector, [0] * self._words)
        seed = self._builder.insert_element(zero, crc, ir.Constant(_I32, 0))
        return [self._builder.xor(block[0], seed), *block[1:]]

    def fold(self, folded: list[Any], block: list[Any]) -> list[Any]:
        """Add what has been folded so far to the next block."""
        return [self._fold_vector(*pair) for pair in zip(folded, block, strict=True)]

    def fold_all(self, folded: list[Any], address: Any, blocks: Any, target: Any) -> list[Any]:
        """Fold so many blocks, and copy each one if there is a target."""
        builder = self._builder
        places = [cgutils.alloca_once_value(builder, vector) for vector in folded]
        with cgutils.for_range(builder, blocks) as loop:
            at = builder.mul(loop.index, self.block_bytes)
            block = self.load(builder.add(address, at))
            if target is not None:
                self.store(block, builder.add(target, at), streamed=True)
            for place, vector in zip(places, self.fold([builder.load(place) for place in places], block), strict=True):
                builder.store(vector, place)
        return [builder.load(place) for place in places]

    def _fold_vector(self, folded: Any, vector: Any) -> Any:
        # Once for the low and once for the high halves: a multiplication takes one 64-bit number of every two.
        low, high = (
            _call(self._builder, self._name, self._vector, [folded, self._powers, ir.Constant(ir.IntType(8), half)])
            for half in (0x00, 0x11)
        )
        return self._builder.xor(self._builder.xor(low, high), vector)

    def finish(self, folded: list[Any]) -> Any:
        """Compute the checksum of the last block."""
        crc = ir.Constant(_I64, 0)
        for vector in folded:
            for index in range(self._words):
                word = self._builder.extract_element(vector, ir.Constant(_I32, index))
                crc = _crc_step(self._builder, crc, word)
        return crc


def fold_blocks(words: int) -> Any:
    """Define the checksum of whole blocks with vectors of so many 64-bit numbers: address, blocks (> 0), crc."""

    @intrinsic
    def fold(_typing: Any, _address: Any, _blocks: Any, _crc: Any) -> _Lowered:
        """Continue `crc` over whole blocks."""

        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, blocks, crc = arguments
            folder = _Folder(builder, words)
            first = folder.start(folder.load(address), crc)
            left = builder.sub(blocks, ir.Constant(_I64, 1))
            return folder.finish(folder.fold_all(first, builder.add(address, folder.block_bytes), left, None))

        return types.int64(types.int64, types.int64, types.int64), generate

    return fold


def resume_blocks(words: int) -> Any:
    """Define the same for a checksum kept in memory: address, blocks, state."""

    @intrinsic
    def resume(_typing: Any, _address: Any, _blocks: Any, _state: Any) -> _Lowered:
        """Fold whole blocks into `state`."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, blocks, state = arguments
            folder = _Folder(builder, words)
            folder.store(folder.fold_all(folder.load(state), address, blocks, None), state)
            return context.get_dummy_value()

        return types.void(*(types.int64,) * 3), generate

    return resume


def stream_blocks(words: int) -> Any:
    """Define the same, copying the blocks too: address, blocks, state, aligned target."""

    @intrinsic
    def stream(_typing: Any, _address: Any, _blocks: Any, _state: Any, _target: Any) -> _Lowered:
        """Fold whole blocks into `state`, and copy them past the cache."""

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            address, blocks, state, target = arguments
            folder = _Folder(builder, words)
            folder.store(folder.fold_all(folder.load(state), address, blocks, target), state)
            return context.get_dummy_value()

        return types.void(*(types.int64,) * 4), generate

    return stream


@intrinsic
def add_word(_typing: Any, _crc: Any, _word: Any) -> _Lowered:
    """Continue a checksum over eight bytes."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _crc_step(builder, *arguments)

    return types.int64(types.int64, types.int64), generate


@intrinsic
def add_byte(_typing: Any, _crc: Any, _byte: Any) -> _Lowered:
    """Continue a checksum over one byte."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        crc, byte = builder.trunc(arguments[0], _I32), builder.trunc(arguments[1], ir.IntType(8))
        return builder.zext(_call(builder, "llvm.x86.sse42.crc32.32.8", _I32, [crc, byte]), _I64)

    return types.int64(types.int64, types.int64), generate


@inlined
def add_bytes(crc: int, address: int, size: int) -> int:
    """Continue a checksum over a few bytes."""
    for index in range(size // 8):
        crc = add_word(crc, load_item64(address, index))
    for index in range(size // 8 * 8, size):
        crc = add_byte(crc, load_byte(address, index))
    return crc


@inlined
def enter_state(state: int, address: int, crc: int) -> None:
    """Keep a checksum in memory from now on: as the first block from here on, with the checksum so far added."""
    copy_bytes(state, 0, address, 0, BLOCK_BYTES)
    store_item64(state, 0, load_item64(state, 0) ^ crc)


@inlined
def leave_state(state: int) -> int:
    """Compute the checksum of all that was folded into `state`."""
    crc = 0
    for index in range(BLOCK_BYTES // 8):
        crc = add_word(crc, load_item64(state, index))
    return crc


def checksum_of(words: int) -> Any:
    """Define the checksum with vectors of so many 64-bit numbers: address, size in bytes."""
    fold, size_of_block = fold_blocks(words), block_bytes(words)

    @inlined
    def compute(address: int, size: int) -> int:
        crc, blocks = _ONES, size // size_of_block
        if blocks > 0:
            crc = fold(address, blocks, crc)
        done = blocks * size_of_block
        return add_bytes(crc, address + done, size - done) ^ _ONES

    return compute


def _unavailable(*_arguments: int) -> int:
    return -1


crc32c: Any = checksum_of(WORDS) if IN_KERNELS else inlined(_unavailable)
_resume: Any = resume_blocks(WORDS) if IN_KERNELS else inlined(_unavailable)


@called
def add_blocks(crc: int, address: int, blocks: int, state: int) -> int:
    """Continue a checksum over whole blocks, at least one; from then on it is kept in memory."""
    if crc != IN_STATE:
        enter_state(state, address, crc)
        address += BLOCK_BYTES
        blocks -= 1
    _resume(address, blocks, state)
    return IN_STATE
