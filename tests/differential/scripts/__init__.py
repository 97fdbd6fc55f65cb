"""The scripts by name."""

from collections.abc import Callable

from tests.differential.scripts import (
    acls,
    consumer_groups,
    group_offsets,
    groups,
    quotas,
    reading,
    records,
    settings,
    topics,
    transactions,
    visibility,
)
from tests.differential.talk import Talk

SCRIPTS: dict[str, Callable[[Talk], None]] = {
    **topics.SCRIPTS,
    **records.SCRIPTS,
    **reading.SCRIPTS,
    **groups.SCRIPTS,
    **consumer_groups.SCRIPTS,
    **group_offsets.SCRIPTS,
    **quotas.SCRIPTS,
    **settings.SCRIPTS,
    **transactions.SCRIPTS,
    **visibility.SCRIPTS,
    **acls.SCRIPTS,
}
