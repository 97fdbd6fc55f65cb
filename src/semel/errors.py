"""Every error semel raises, as one tree.

    SemelError(.outcome, .next_command)
      ConfigError               wrong settings, found before anything ran
        GuaranteeError(.rule)     the settings cannot keep the declared guarantee
        MissingExtraError         an optional part is not installed
      EnvironmentFailure        Java, a port, a disk or a program that is needed is not there
      ProtocolError             bytes that break the Kafka format
        CorruptBatchError         a record batch is damaged
        UnsupportedVersionError   a format or API version that is not spoken here
      BrokerError(.code)        a Kafka error code, as data
        FencedError               a newer owner exists: stop, never retry
      ConnectionFailure         a broker could not be reached, or the connection broke
      SinkError                 the sink refused
        OutcomeUnknownError       the commit may have happened: read the ledger first

Each answers the question that matters for delivery: may it have happened? `outcome` says so.
The text has up to four labelled lines below the first: you wrote, you want, because, next.
Errors cross process borders (Spark pickles them), so each rebuilds itself from its fields.
"""

from enum import StrEnum
from typing import Self


class Outcome(StrEnum):
    """What is known about the effect of the op that failed."""

    DID_NOT_HAPPEN = "did not happen"
    HAPPENED = "happened"
    UNKNOWN = "unknown"


class SemelError(Exception):
    """Root of the tree: one class to catch."""

    outcome: Outcome = Outcome.DID_NOT_HAPPEN

    def __init__(
        self,
        summary: str,
        *,
        outcome: Outcome | None = None,
        you_wrote: str = "",
        you_want: str = "",
        because: str = "",
        next_command: str = "",
    ) -> None:
        """Keep the parts; the text is made from them."""
        super().__init__(summary)
        self.summary = summary
        self.outcome = outcome or type(self).outcome
        self.you_wrote = you_wrote
        self.you_want = you_want
        self.because = because
        self.next_command = next_command

    def __str__(self) -> str:
        """Render the summary and whichever labelled lines there are."""
        labelled = (
            ("you wrote", self.you_wrote),
            ("you want", self.you_want),
            ("because", self.because),
            ("next", self.next_command),
        )
        lines = [f"  {label:<10}  {text}" for label, text in labelled if text]
        return "\n".join([self._headline(), *lines])

    def _headline(self) -> str:
        if self.outcome is Outcome.UNKNOWN:
            return f"{self.summary} (it may have happened)"
        return self.summary

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle as class plus fields: constructors with keyword arguments do not survive the default."""
        return _rebuild, (type(self), self.args, self.__dict__.copy())


def _rebuild(cls: type[SemelError], args: tuple[object, ...], fields: dict[str, object]) -> SemelError:
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class ConfigError(SemelError):
    """Wrong settings, found before anything ran."""


class GuaranteeError(ConfigError):
    """Settings that cannot keep the declared guarantee."""

    def __init__(
        self,
        summary: str,
        *,
        rule: str,
        you_wrote: str = "",
        you_want: str = "",
        because: str = "",
        next_command: str = "",
    ) -> None:
        """`rule` is the id that `semel explain` knows."""
        super().__init__(
            summary,
            you_wrote=you_wrote,
            you_want=you_want,
            because=because,
            next_command=next_command or f"semel explain {rule}",
        )
        self.rule = rule

    def _headline(self) -> str:
        return f"{self.rule}: {self.summary}"


class MissingExtraError(ConfigError):
    """An optional part of semel is not installed."""

    @classmethod
    def of(cls, extra: str, needed_for: str) -> Self:
        """Name the extra and the command that brings it."""
        return cls(f"{needed_for} needs the extra {extra!r}", next_command=f"pip install 'semel[{extra}]'")


class EnvironmentFailure(SemelError):
    """Something outside semel that is needed is not there."""


class ProtocolError(SemelError):
    """Bytes that break the Kafka format."""

    def __init__(
        self,
        summary: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        because: str = "",
        next_command: str = "",
    ) -> None:
        """Say where the bytes came from, as far as that is known."""
        super().__init__(summary, because=because, next_command=next_command)
        self.topic = topic
        self.partition = partition
        self.offset = offset

    def _headline(self) -> str:
        known = (("topic", self.topic), ("partition", self.partition), ("offset", self.offset))
        place = ", ".join(f"{name} {value}" for name, value in known if value is not None)
        return f"{self.summary} ({place})" if place else self.summary


class CorruptBatchError(ProtocolError):
    """A record batch is damaged: its checksum, lengths or counts do not agree."""


class UnsupportedVersionError(ProtocolError):
    """A format or API version that is not spoken here."""


class BrokerError(SemelError):
    """A Kafka error code, as data."""

    def __init__(
        self,
        summary: str,
        *,
        code: int,
        outcome: Outcome | None = None,
        because: str = "",
        next_command: str = "",
    ) -> None:
        """`code` is the number on the wire."""
        super().__init__(summary, outcome=outcome, because=because, next_command=next_command)
        self.code = code


class FencedError(BrokerError):
    """A newer owner exists: stop, never retry."""


class ConnectionFailure(SemelError):
    """A broker could not be reached, or the connection broke; a request under way may have been carried out."""

    outcome = Outcome.UNKNOWN


class SinkError(SemelError):
    """The sink refused."""


class OutcomeUnknownError(SinkError):
    """The commit may have happened: read the ledger before anything is sent again."""

    outcome = Outcome.UNKNOWN
