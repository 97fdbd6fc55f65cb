"""`TopicLives`: which topic a name stands for, so that offsets are never taken for those of another topic.

A topic that was deleted and created again has the same name, and other records at the same offsets. Its id tells them
apart. The ids are learned before positions are read, and asked for again before an offset is committed: ids do not come
back, so a topic that has the same one now had it when the records were fetched. And an offset is committed with the id,
in a store's row or in the metadata of the group's offset: so it is known for what it is when the topic became another
since somebody asked.

Keeps: K10 an offset that was read from one topic is not taken for one of another topic of the same name.
Why:   librdkafka goes on at the old offset of a new topic without a word. Asking takes as long as some hundred records:
       so one answer counts for all that were fetched before it, for a moment, and the question is sent when records
       are fetched, so that the answer is there when they are done.
"""

from __future__ import annotations

import math
import time
from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from semel.clients.failures import failure
from semel.clients.interrupts import interrupts_put_off
from semel.clients.library import confluent, fork_refusal, make, never_free
from semel.clients.records import Life
from semel.errors import BrokerError, Outcome, SemelError

if TYPE_CHECKING:
    from concurrent.futures import Future

UNKNOWN_TOPIC, UNKNOWN_TOPIC_ID, TIMED_OUT = 3, 100, -185
HOPELESS = frozenset({29, 31, -169})  # authorization of the topic, of the cluster; authentication
GONE_S_MAX = 5.0  # a new topic may be known to its leader first
PAUSE_S, GRACE_S = 0.05, 0.5
ASKING_SHARE, QUIET_S_MAX = 0.01, 0.2  # of the time, at most, in which somebody asks; and how long nobody asks
SOCKET_MS = 5_000
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # what brokers before topic ids give
LABEL = "semel topic id "
AGAIN = "close this consumer and make another"
LATER = "do it again when the cluster answers: nothing was committed"


class _Question(NamedTuple):
    """What was asked ahead."""

    fetches: int  # that were made before it
    asked_at: float
    answers: Mapping[str, Future[Any]]


class TopicLives:
    """The ids of the topics that are read now."""

    def __init__(self, settings: Mapping[str, object], wait_s_max: float) -> None:
        """`settings` are the consumer's: the same brokers, the same credentials."""
        # Callbacks are the consumer's own, but for the one that brings a token.
        self._settings = {name: to for name, to in settings.items() if not callable(to) or name == "oauth_cb"}
        # A connection that is silent is given up and made again.
        self._settings["socket.timeout.ms"] = min(SOCKET_MS, int(str(settings.get("socket.timeout.ms", SOCKET_MS))))
        self._wait_s_max = wait_s_max
        self._admin: Any = None
        self._cluster_id = ""
        self._refusal: SemelError | None = None
        self._fetches = self._fetches_confirmed = 0
        self._quiet_until = -math.inf
        self._ahead: _Question | None = None
        self.known: dict[str, Life] = {}

    def learn(self, topics: Collection[str]) -> dict[str, Life]:
        """The lives of topics whose partitions came; BrokerError when one that is read already is another now."""
        if not topics:
            return {}  # a group may have more members than partitions
        if self._admin is None:
            self._admin = make("admin.AdminClient", self._settings)
        if not self._cluster_id:
            self._cluster_id = self._ask_cluster(next(iter(topics)))
        found = self._describe(topics, self._wait_s_max)
        lives = {topic: Life(topic_id_of(one), self._cluster_id) for topic, one in found.items()}
        for topic, life in lives.items():
            self._compare(topic, life)
        self.known = self.known | lives  # another one: a thread may be looking at the last
        return lives

    def keep(self, topics: Collection[str]) -> None:
        """Only these are read any more."""
        self.known = {topic: life for topic, life in self.known.items() if topic in topics}
        self._refusal = None

    def doubt(self) -> None:
        """Records were fetched, or it matters more: an answer from before does not count."""
        self._fetches += 1

    def ask_ahead(self) -> None:
        """Send the question of the next `confirm`, which then has to wait for less, or for nothing."""
        if self.known:
            self._ahead = _Question(self._fetches, time.monotonic(), self._ask(list(self.known), self._wait_s_max))

    @property
    def is_asked_too_soon(self) -> bool:
        """Whether to ask now would be to ask all the time."""
        return self._fetches_confirmed != self._fetches and time.monotonic() < self._quiet_until

    def confirm(self, wait_s_max: float | None = None, *, any_age: bool = False) -> None:
        """Ask whether they are still the same, unless that was done a moment ago and nothing was fetched since.

        With `any_age` that moment may be long: a store's rows are found to be of another topic without any harm, while
        a group's offset needs an operator then. BrokerError when one is another, or is gone, or nobody answers.
        """
        if self._refusal is not None:
            raise self._refusal
        began = time.monotonic()
        if self._fetches_confirmed == self._fetches and (any_age or began < self._quiet_until):
            return
        # Before asking: what is fetched while the answer is on its way is not covered by it.
        fetches = self._fetches
        ahead, self._ahead = self._ahead, None
        if ahead is None or ahead.fetches != fetches or not (any_age or began - ahead.asked_at < QUIET_S_MAX):
            ahead = None
        found = self._describe(self.known, wait_s_max or self._wait_s_max, ahead.answers if ahead else {})
        for topic, one in found.items():
            self._compare(topic, Life(topic_id_of(one)))
        # An answer counts as long as it took to get it allows; one that was asked for ahead took nothing.
        now = time.monotonic()
        quiet_until = ahead.asked_at + QUIET_S_MAX if ahead else now + min((now - began) / ASKING_SHARE, QUIET_S_MAX)
        self._fetches_confirmed, self._quiet_until = fetches, quiet_until

    def _compare(self, topic: str, life: Life) -> None:
        known = self.known.get(topic, Life())
        if known.differs(life):
            self._refusal = another_life(topic, known, life, next_command=AGAIN)
            raise self._refusal

    def _ask_cluster(self, topic: str) -> str:
        """The cluster's id, from whichever broker answers: describing the cluster would need the controller."""
        try:
            return str(self._admin.list_topics(topic, timeout=self._wait_s_max).cluster_id or "")
        except confluent().KafkaException as error:
            what = "nobody says which cluster this is"
            raise failure(error.args[0], what, outcome=Outcome.DID_NOT_HAPPEN, next_command=AGAIN) from None

    def _ask(self, topics: list[str], wait_s_max: float) -> Mapping[str, Future[Any]]:
        with interrupts_put_off():  # in the library's own code a Ctrl-C becomes a SystemError
            asked = self._admin.describe_topics(confluent().TopicCollection(topics), request_timeout=wait_s_max)
        return cast("Mapping[str, Future[Any]]", asked)

    def _describe(
        self, topics: Collection[str], wait_s_max: float, answers: Mapping[str, Future[Any]] = MappingProxyType({})
    ) -> dict[str, Any]:
        """What the cluster says of these topics; `answers` are on their way. Ask again where that may help."""
        began, found = time.monotonic(), dict[str, Any]()
        while missing := [topic for topic in topics if topic not in found]:
            left_s = max(began + wait_s_max - time.monotonic(), PAUSE_S)
            if not answers.keys() >= set(missing):
                answers = self._ask(missing, left_s)
            for topic in missing:
                try:
                    # A request has the same limit; one that was asked ahead has a later one.
                    found[topic] = answers[topic].result(left_s + GRACE_S)
                except TimeoutError:
                    raise BrokerError(
                        f"nobody says which topic {topic} is",
                        code=TIMED_OUT,
                        outcome=Outcome.DID_NOT_HAPPEN,
                        because=f"no answer came within {wait_s_max:g} s",
                        next_command=LATER,
                    ) from None
                except confluent().KafkaException as error:
                    cause = error.args[0]
                    limit_s = min(GONE_S_MAX if cause.code() == UNKNOWN_TOPIC else math.inf, wait_s_max)
                    if cause.code() in HOPELESS or time.monotonic() - began > limit_s:
                        what = f"nobody says which topic {topic} is"
                        way = AGAIN if cause.code() in HOPELESS | {UNKNOWN_TOPIC} else LATER
                        raise failure(cause, what, outcome=Outcome.DID_NOT_HAPPEN, next_command=way) from None
            if len(found) < len(topics):
                answers = {}
                time.sleep(PAUSE_S)
        return found

    def close(self) -> None:
        """Let the library's threads end."""
        self._admin = None

    def forked(self) -> None:
        """In a child process: the library's threads are not there, and no answer comes."""
        self._refusal, self._ahead = fork_refusal("consumer"), None
        if self._admin is not None:
            never_free(self._admin)


def topic_id_of(description: Any) -> str:
    """The id in Kafka's own spelling; empty when the broker has none."""
    found = str(description.topic_id)
    return "" if found == NO_ID else found


def label_of(life: Life) -> str:
    """What is written beside an offset in the group."""
    return f"{LABEL}{life.topic_id}" if life.topic_id else ""


def life_in(label: str | None) -> Life:
    """What is said by whatever is written beside an offset; other clients write what they like, or nothing."""
    return Life(label.removeprefix(LABEL)) if label and label.startswith(LABEL) else Life()


def another_life(topic: str, known: Life, life: Life, *, next_command: str) -> BrokerError:
    """Offsets are of one topic, and its name stands for another now."""
    # Topics of two clusters have two ids as well; so the clusters are looked at first.
    is_moved = bool(known.cluster_id and life.cluster_id) and known.cluster_id != life.cluster_id
    was, now = (known.cluster_id, life.cluster_id) if is_moved else (known.topic_id, life.topic_id)
    return BrokerError(
        f"{topic} is in another cluster now" if is_moved else f"{topic} was deleted and created again",
        code=UNKNOWN_TOPIC_ID,
        because=f"the offsets are of the one with id {was}; the one with id {now} has other records there",
        next_command=next_command,
    )
