"""Histories in few words: acts with outcomes, numbered as they come; overlapping ops are written with `during`."""

from semel.history import Act, Op, Outcome, Read

HERE = ("orders", 0)
THERE = ("orders", 1)


class Written:
    """A history that is being written down."""

    def __init__(self) -> None:
        """Start empty."""
        self.ops: list[Op] = []
        self._next = 0

    def add(self, act: Act, outcome: Outcome = Outcome.OK, *, client: str = "c1", at_ms: int = 0) -> "Written":
        """One op after another."""
        self.ops.append(
            Op(client=client, act=act, outcome=outcome, invoked=self._next, returned=self._next + 1, at_ms=at_ms)
        )
        self._next += 2
        return self

    def last_began_at(self, invoked: int) -> "Written":
        """Let the last op have begun earlier than it was written."""
        last = self.ops[-1]
        self.ops[-1] = Op(
            client=last.client, act=last.act, outcome=last.outcome, invoked=invoked, returned=last.returned
        )
        return self

    def final(self, *values: str, place: tuple[str, int] = HERE) -> "Written":
        """The final reads of one partition, the same for both isolations."""
        return self.final_as(values, committed=True, place=place).final_as(values, committed=False, place=place)

    def final_as(
        self, values: tuple[str, ...], *, committed: bool, place: tuple[str, int] = HERE, first: int = 0
    ) -> "Written":
        """The final read of one isolation."""
        records = tuple(enumerate(values, first))
        end = first + len(values)
        return self.add(
            Read(
                place=place,
                committed=committed,
                offset_next=end,
                high_watermark=end,
                last_stable_offset=end,
                records=records,
                final=True,
            ),
            client="final",
        )
