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
        NoSpaceError              the sink's disk is full
        OutcomeUnknownError       the commit may have happened: read the ledger first

Each answers the question that matters for delivery: may it have happened? `outcome` says so.
The text has up to four labelled lines below the first: you wrote, you want, because, next.
The docstring of a class is what `semel explain` says of it: what it means, then what to do.
Errors cross process borders (Spark pickles them), so each rebuilds itself from its fields.
"""

from enum import StrEnum
from typing import Self


class Outcome(StrEnum):
    """What is known about the effect of the op that failed. A history has another, of ops that did not fail too."""

    DID_NOT_HAPPEN = "did not happen"
    HAPPENED = "happened"
    UNKNOWN = "unknown"


class SemelError(Exception):
    """Root of the tree: one class to catch.

    Catch it where a program must go on whatever happens, and look at `outcome`: UNKNOWN means that the work may have
    been done. Find out before you do it again.
    """

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
        # Most errors of a class know as much about it. Who knows more says so.
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
    # Without `__init__`: subclasses ask for arguments of their own, and all that they made of them is in the fields.
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(fields)
    return error


class ConfigError(SemelError):
    """Wrong settings, found before anything ran.

    Change what stands behind "you wrote" to what stands behind "you want". Nothing was sent or written.
    """


class GuaranteeError(ConfigError):
    """Settings that cannot keep the declared guarantee.

    Change the settings, or declare a weaker guarantee. The first line begins with the rule; `semel explain` tells
    what goes wrong without it.
    """

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
    """An optional part of semel is not installed.

    Run the `pip install` of the last line, in the environment that semel is installed in.
    """

    @classmethod
    def of(cls, extra: str, needed_for: str) -> Self:
        """Name the extra and the command that brings it."""
        return cls(f"{needed_for} needs the extra {extra!r}", next_command=install_command(extra))


def install_command(extra: str = "", *, upgrade: bool = False) -> str:
    """The command that brings an optional part, or semel itself, the way it was installed: by name or from a folder."""
    # Who has everything pays for none of these.
    import json  # noqa: PLC0415
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415

    wanted = f"[{extra}]" if extra else ""
    pip = "pip install --upgrade" if upgrade else "pip install"
    try:
        origin = json.loads(distribution("semel").read_text("direct_url.json") or "{}")
    except (PackageNotFoundError, ValueError):
        origin = {}
    url = str(origin.get("url", ""))
    if url.startswith("file://"):
        is_editable = bool(origin.get("dir_info", {}).get("editable"))
        # Not shlex.quote: in double quotes it is one word for a shell and for cmd.exe.
        return f'{pip} {"-e " if is_editable else ""}"{unquote(urlsplit(url).path)}{wanted}"'
    if "vcs_info" in origin:
        return f'{pip} "semel{wanted} @ {origin["vcs_info"]["vcs"]}+{url}"'
    return f'{pip} "semel{wanted}"'


class EnvironmentFailure(SemelError):
    """Something outside semel that is needed is not there: Java, a port, a disk, a program.

    `semel doctor` looks for what semel needs on this machine and says what to do.
    """


class ProtocolError(SemelError):
    """Bytes that break the Kafka format.

    If it names a topic and an offset, the log of that partition has to be looked at; a copy on another broker may be
    whole. Otherwise what answered does not speak Kafka: look at the address and at the listener's protocol.
    """

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
    """A record batch is damaged: its checksum, lengths or counts do not agree.

    Reading again helps if it was damaged on the way. Otherwise the log of the partition has to be looked at, on the
    broker that leads it; a copy on another broker may be whole.
    """


class UnsupportedVersionError(ProtocolError):
    """A format or API version that is not spoken here.

    The first line says which version was found and which ones are spoken: one of the two sides is older than the
    other needs.
    """


class BrokerError(SemelError):
    """A Kafka error code, as data.

    The first line ends with the name of the code, and `code` has the number; `semel explain` knows both.
    """

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
    """A newer owner exists: stop, never retry.

    Another process has taken the same transactional id, group member or pipeline over, or the coordinator took this
    one for dead. Whatever was not committed goes to the newer owner. Let this process end; if nobody started another
    one, start it again, and it becomes the newer owner.
    """


class ConnectionFailure(SemelError):
    """A broker could not be reached, or the connection broke; a request under way may have been carried out.

    Look at the address and at whether the cluster is up: `semel check --bootstrap` shows what can be seen of it. What
    an idempotent or transactional producer was sending may be sent again by the same producer; anything else may
    double.
    """

    outcome = Outcome.UNKNOWN


class SinkError(SemelError):
    """The sink refused.

    The text says why. Readers of committed records see nothing of the micro-batch or run. Where the way on depends on
    the pipeline's situation, the last line is the `semel pipeline status` that shows it.
    """


class NoSpaceError(SinkError):
    """The disk that the sink writes to is full.

    Nothing of the micro-batch is in the output. It is not tried again at once: what another try leaves behind would
    take still more room. Free space where the text says, then start the query again: it goes on with the same
    micro-batch.
    """


class OutcomeUnknownError(SinkError):
    """The commit may have happened: read the ledger before anything is sent again.

    Starting the same pipeline again does that by itself: it goes on if the ledger answers. If it stops with this
    error again, `semel pipeline status` shows what is known, and the text names the choices.
    """

    outcome = Outcome.UNKNOWN
