"""No duplicate: a record of an idempotent producer stands in the log once, however often it was sent."""

from collections import Counter
from collections.abc import Sequence

from semel.guarantee import Anomaly
from semel.history.op import Op
from semel.history.verdict import Breach, Judgement
from semel.history.view import final_records, sends_by_value

LAW = "no duplicate"


def judge(history: Sequence[Op]) -> Judgement:
    """Count values in the final reads; plain producers may repeat theirs."""
    sends = sends_by_value(history)
    # read_uncommitted, which sees every copy. A read_committed reader does not see those that were aborted.
    final = final_records(history, committed=False) or {}
    counts = Counter(value for records in final.values() for _, value in records)
    once = {value: count for value, count in counts.items() if value in sends and sends[value][1].producer}
    breaches = tuple(
        Breach(kind=Anomaly.DUPLICATED, text=f"{value} stands {count} times in the log")
        for value, count in once.items()
        if count > 1
    )
    return Judgement(law=LAW, weighed=len(once), breaches=breaches)
