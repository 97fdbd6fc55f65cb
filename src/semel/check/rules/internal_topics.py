"""What S032 and S033 share: how safely an internal topic is kept, whether it exists yet or not."""

from dataclasses import dataclass

from semel.check.facts import Facts, known, number
from semel.check.rule import Judged, Severity, without_copies

COPIES_MIN = 3
IN_SYNC_MIN = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopic:
    """A topic that brokers create for themselves, and the broker settings that it is then made with."""

    name: str
    replication_setting: str
    in_sync_setting: str
    few_in_sync: Severity = Severity.ERROR

    def subjects(self, facts: Facts) -> list[str]:
        """The topic, once there is a cluster to look at."""
        return [self.name] if facts.brokers else []

    def judge(self, facts: Facts, _: str) -> Judged:
        """Judge the topic if it exists, else what it would be created with."""
        topic = facts.internal[self.name]
        partitions = known(topic.partitions)
        if partitions:
            copies = min(len(one.replicas) for one in partitions)
            in_sync = number(topic.settings, "min.insync.replicas")
            fix = f"kafka-reassign-partitions.sh to {COPIES_MIN} replicas, then min.insync.replicas={IN_SYNC_MIN}"
        else:
            asked = min(number(broker, self.replication_setting) for broker in facts.brokers.values())
            copies = min(asked, len(facts.brokers))  # it cannot get more than there are brokers
            in_sync = min(number(broker, self.in_sync_setting) for broker in facts.brokers.values())
            fix = f"on the brokers: {self.replication_setting}={COPIES_MIN} {self.in_sync_setting}={IN_SYNC_MIN}"
            if copies < asked:
                fix = f"a cluster of {COPIES_MIN} brokers or more; {asked} replicas are asked for"
        state = "" if partitions else ", not created yet"
        judged = Judged(
            held=copies >= COPIES_MIN and in_sync >= IN_SYNC_MIN,
            found=f"replication factor {copies}, min.insync.replicas={in_sync}{state}",
            fix=fix,
            # With enough copies a single failure loses nothing: the others have to fall behind first.
            severity=self.few_in_sync if copies >= COPIES_MIN else None,
        )
        return without_copies(facts, judged)
