"""The same rights, the same requests, the same answers: the embedded cluster refuses as Apache Kafka does."""

from pathlib import Path

import pytest

from tests.acls.acl_script import acl_script
from tests.acls.cases import Place
from tests.acls.running import CASES, run
from tests.acls.user_talk import UserTalk
from tests.differential.allowed import ALLOWED, MORE_WORDS, Allowed
from tests.differential.run import compare, permits

DIFFERENCES = Path(__file__).parents[2] / "docs" / "DIFFERENCES.md"
MEANT = (
    Allowed(
        api="DescribeLogDirs",
        path="results.",
        anchor="k35",
        reason="Without the right, v1 and v2 carry the error on a folder without a name, since they have no other "
        "place for it; Apache Kafka answers them with an empty list.",
        step="folders, none v[12]",
    ),
    Allowed(
        api="AlterPartitionReassignments",
        path="*.error_message",
        anchor="k45",
        reason=MORE_WORDS,
        step="reassign, all *",
        apache="None",
    ),
    Allowed(
        api="DescribeClientQuotas",
        path="error_message",
        anchor="k48",
        reason=MORE_WORDS,
        step="quotas, none *",
        apache="None",
    ),
    Allowed(
        api="ListPartitionReassignments",
        path="topics.*",
        anchor="k46",
        reason="A refusal names no partitions; Apache Kafka lists those that were asked for.",
        step="reassignments, none *",
    ),
)
ENTRIES_MEANT = (
    *(
        Allowed(
            api="CreateAcls",
            path="results.0.error_*",
            anchor="k30",
            reason="An entry for ANY or MATCH is refused with INVALID_REQUEST; Apache Kafka fails with "
            "UNKNOWN_SERVER_ERROR.",
            step=step,
        )
        for step in ("any *", "a matching pattern *")
    ),
    *(
        Allowed(
            api=api,
            path="*",
            anchor=anchor,
            reason="A filter with an unknown type is refused with INVALID_REQUEST; Apache Kafka closes the connection.",
            step="*unknown *",
        )
        for api, anchor in (("DescribeAcls", "k29"), ("DeleteAcls", "k31"))
    ),
)


@pytest.mark.full
@pytest.mark.parametrize("name", CASES)
def test_the_answers_are_the_same(both: tuple[Place, Place], name: str) -> None:
    case = CASES[name]
    ours, theirs = (run(case, place) for place in both)
    if not case.compared_when_allowed:
        del ours["all"], theirs["all"]
    found = [each for label in ours for each in compare(name, ours[label], theirs[label])]
    unexpected = [each for each in found if not any(permits(entry, each) for entry in (*ALLOWED, *MEANT))]
    assert not unexpected, "\n".join(map(str, unexpected))


@pytest.mark.full
def test_entries_are_made_found_and_deleted_in_the_same_way(both: tuple[Place, Place]) -> None:
    recorded = []
    for place in both:
        talk = UserTalk(place.talk.side, place.talk.versions, "script-entries-")
        place.talk.let(())
        acl_script(talk)
        talk.close()
        recorded.append(talk.steps)
    found = compare("entries", *recorded)
    unexpected = [each for each in found if not any(permits(entry, each) for entry in ENTRIES_MEANT)]
    assert not unexpected, "\n".join(map(str, unexpected))
    unused = [entry for entry in ENTRIES_MEANT if not any(permits(entry, each) for each in found)]
    assert not unused, "\n".join(f"{entry.step}: {entry.reason}" for entry in unused)


def test_every_reason_is_documented() -> None:
    text = " ".join(DIFFERENCES.read_text().split())
    sections = {part.split('"')[0]: part for part in text.split('<a id="')[1:]}
    assert not [entry for entry in (*MEANT, *ENTRIES_MEANT) if entry.reason not in sections[entry.anchor]]
