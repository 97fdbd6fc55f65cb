"""`GroupCommits`: offsets committed to the group: waiting for the answer, or in the background.

Keeps: K5 a partition that was taken away takes its offsets along; K10 an offset that was read from one topic is not
       taken for one of another topic of the same name: the topic is asked for its id, which is committed too.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from semel.clients.failures import COORDINATOR_AWAY, FENCED_MEMBER, KafkaFailure, failure
from semel.clients.library import confluent, log
from semel.clients.limited_calls import LimitedCalls, LimitPassed
from semel.clients.progress import Offsets, Progress
from semel.clients.records import Life
from semel.clients.topic_lives import UNKNOWN_TOPIC_ID, TopicLives, label_of
from semel.errors import BrokerError, FencedError, Outcome
from semel.protocol.topic_partition import TopicPartition

REBALANCE_IN_PROGRESS, TIMED_OUT = 27, -185
PAUSE_S = 0.05
CONFIRM_S_MAX = 5.0
GO_ON = "go on, or commit again: what is finished goes with the next commit; a crash before that repeats it"


class GroupCommits:
    """The commits of one member."""

    def __init__(
        self,
        progress: Progress,
        lives: TopicLives,
        wait_s_max: float,
        user_on_commit: Callable[[KafkaFailure | None, list[Any]], object] | None,
    ) -> None:
        """`client` is set when there is one: the library wants to know beforehand whom to tell of its commits."""
        self.client: Any = None
        self._progress = progress
        self._lives = lives
        self._wait_s_max = wait_s_max
        self._user_on_commit = user_on_commit
        self.limited = LimitedCalls()
        self.is_in_callback = False
        self._in_flight = False
        self.refused = 0  # how many came too late, or failed

    def commit(self, offsets: Offsets) -> None:
        """Commit and wait, within the limit. FencedError when the group gave the partitions to another."""
        deadline = time.monotonic() + self._wait_s_max
        if offsets:
            self._lives.confirm()
        while offsets:
            try:
                self._ask(deadline, self.labelled(offsets))
            except LimitPassed:
                raise self._unanswered() from None
            except confluent().KafkaException as error:
                cause: KafkaFailure = error.args[0]
            else:
                return
            # In the sync phase the group does not say yet who gets the partitions. To
            # wait could commit for their next owner.
            if cause.code() in FENCED_MEMBER or cause.code() == REBALANCE_IN_PROGRESS:
                self.refused += 1
                raise FencedError(
                    f"the commit was refused: {cause.name()}",
                    code=cause.code(),
                    because="the group has given the partitions to another member, or is about to",
                    next_command="go on: the records come again to the consumer that has the partition now",
                )
            if cause.code() not in COORDINATOR_AWAY or time.monotonic() > deadline:
                raise failure(cause, "the offsets were not committed", outcome=Outcome.UNKNOWN, next_command=GO_ON)
            time.sleep(PAUSE_S)

    def _ask(self, deadline: float, places: list[Any]) -> None:
        """One commit. In a callback of the library no other thread may call it: there the library's limits count."""
        call = partial(self.client.commit, offsets=places, asynchronous=False)
        if self.is_in_callback:
            call()
            return
        self.limited.wait(max(deadline - time.monotonic(), 0))  # none waits behind one that was left behind
        self.limited.call(max(deadline - time.monotonic(), PAUSE_S), call)

    def wait_until_free(self) -> None:
        """The library does one thing at a time: while it waits for a coordinator, nothing can be asked of it."""
        try:
            self.limited.wait(self._wait_s_max)
        except LimitPassed:
            raise self._unanswered() from None

    def _unanswered(self) -> BrokerError:
        """The library still waits, for as long as it takes, and makes the commit when it can."""
        return BrokerError(
            f"the offsets were not committed within {self._wait_s_max:g} s",
            code=TIMED_OUT,
            outcome=Outcome.UNKNOWN,
            because="no coordinator of the group was found, or it does not answer",
            next_command=GO_ON,
        )

    def commit_soon(self) -> None:
        """Send what is finished, unless a commit is still under way: then the next one carries it."""
        if self._progress.finished and not self._in_flight and self._is_confirmed():
            # One at a time: the library may send two in any order, and the older offsets could arrive last.
            self._in_flight = True
            try:
                self.client.commit(offsets=self.labelled(self._progress.finished), asynchronous=True)
                self._progress.finished = {}
            except BaseException:  # an interrupt as well: nobody would ever answer
                self._in_flight = False
                raise

    def _is_confirmed(self) -> bool:
        """Whether the topics are still the same; when nobody says, that is for the next commit to find out.

        Somebody who is quick waits a moment: a crash repeats what was done since, which took no longer than that.
        """
        if self._lives.is_asked_too_soon:
            return False
        try:
            self._lives.confirm(CONFIRM_S_MAX)
        except BrokerError as error:
            if error.code == UNKNOWN_TOPIC_ID:
                raise
            log.warning("offsets are committed later: %s", error.summary)
            return False
        return True

    def answered(self, error: KafkaFailure | None, places: list[Any]) -> None:
        """What the group says to a commit in the background."""
        self._in_flight = False
        failed = error or next((one.error for one in places if one.error is not None), None)
        if failed is not None:
            self.refused += 1
            for one in places:
                if (place := TopicPartition(one.topic, one.partition)) in self._progress.positions:
                    # Back to what waits, unless something newer is there already: an older offset must not replace it.
                    self._progress.finished.setdefault(place, one.offset)
            log.warning("offsets were not committed, records may come again: %s", failed.str())
        if self._user_on_commit is not None:
            self._user_on_commit(error, places)  # last: what it raises changes nothing of the commit

    def commit_if_possible(self, offsets: Offsets) -> None:
        """Commit and wait; a member that is about to leave can only report a refusal."""
        self._lives.doubt()
        try:
            self.commit(offsets)
        except BrokerError as error:
            log.warning("offsets were not committed, records may come again: %s", error.summary)

    def labelled(self, offsets: Mapping[TopicPartition, int]) -> list[Any]:
        """Offsets as they are committed to the group: with the id of the topic that they are of."""
        kind, known = confluent().TopicPartition, self._lives.known
        return [
            kind(place.topic, place.partition, offset, label_of(known.get(place.topic, Life())))
            for place, offset in offsets.items()
        ]
