"""Every mechanism of transactions that can be switched off in a test, and the tests that notice.

The switches exist in the test process only: they replace a function of the broker while one body runs.
"""

from collections.abc import Callable
from dataclasses import dataclass

from tests.mutations import bodies, switches
from tests.mutations.switches import Patch


@dataclass(frozen=True)
class Mutation:
    """One mechanism off."""

    name: str
    switched_off: str
    apply: Callable[[Patch], None]
    caught_by: tuple[bodies.Body, ...]


MUTATIONS = (
    Mutation(
        "producer epoch unchecked", "a partition takes batches and markers of any producer epoch",
        switches.skip_producer_epoch, (bodies.MODEL,),
    ),
    Mutation(
        "sequence unchecked", "a partition neither recognises a repeated batch nor a gap",
        switches.skip_sequences, (bodies.MODEL,),
    ),
    Mutation(
        "write unverified", "a transaction's first write is not checked with its coordinator",
        switches.skip_verification, (bodies.UNKNOWN_WRITE, bodies.LATE_WRITE),
    ),
    Mutation(
        "marker overtaken", "a batch of the next transaction is taken before the marker of the last",
        switches.overtake_markers, (bodies.OVERTAKING, bodies.MODEL),
    ),
    Mutation(
        "late marker taken", "a partition takes a marker of any producer epoch",
        switches.skip_marker_epoch, (bodies.MODEL,),
    ),
    Mutation(
        "owner unchecked", "the coordinator lets any producer epoch add and verify partitions",
        switches.skip_owner, (bodies.OLD_OWNER_FENCED, bodies.MODEL),
    ),
    Mutation(
        "end by anybody", "the coordinator lets any producer epoch end a transaction",
        switches.skip_owner_at_end, (bodies.LATE_END, bodies.OLD_OWNER_FENCED, bodies.MODEL),
    ),
    Mutation(
        "epoch kept", "a transaction of version 2 ends without a new producer epoch",
        switches.keep_epoch, (bodies.LATE_END,),
    ),
    Mutation(
        "markers not asked for", "a decided transaction gets no markers",
        switches.skip_all_markers, (bodies.OPEN_ABORTED,),
    ),
    Mutation(
        "epochs without end", "producer epochs that ran out bring no new producer id",
        switches.never_exhausted, (bodies.EPOCHS_RUN_OUT,),
    ),
    Mutation(
        "marker skipped", "one partition of a transaction never gets its marker",
        switches.skip_one_marker, (bodies.LATE_END,),
    ),
    Mutation(
        "answer before the record", "EndTxn is answered before the decision is durable",
        switches.answer_before_durable, (bodies.DECISION_FIRST,),
    ),
    Mutation(
        "decision turned round", "a decided transaction can be decided otherwise",
        switches.turn_round, (bodies.NOT_TURNED_ROUND,),
    ),
    Mutation(
        "decision forgotten", "a restarted coordinator does not finish what was decided",
        switches.forget_decisions, (bodies.FINISHED_AFTER_RESTART, bodies.MODEL),
    ),
    Mutation(
        "no timeout", "a transaction may stay open for ever",
        switches.never_time_out, (bodies.TIMED_OUT,),
    ),
    Mutation(
        "aborted list ignored", "a reader is not told which transactions were aborted",
        switches.ignore_aborted, (bodies.ABORTED_UNSEEN, bodies.MODEL),
    ),
    Mutation(
        "open transactions read", "the last stable offset ignores open transactions",
        switches.ignore_open, (bodies.ABORTED_UNSEEN, bodies.MODEL),
    ),
    Mutation(
        "offsets early", "offsets of a transaction are visible before its commit",
        switches.show_offsets_early, (bodies.SERVED_ONCE,),
    ),
    Mutation(
        "two reporters", "two tasks at once report a coordinator's appends",
        switches.report_in_two_tasks, (bodies.REPORTED_ONCE,),
    ),
)  # fmt: skip
