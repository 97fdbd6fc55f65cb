"""The demo's two runs: the audit, which knows nothing of the demo, comes to the demo's own numbers."""

from __future__ import annotations

import json
from collections import Counter

import pytest
from pyspark.sql import SparkSession

from semel.cli import demo_orders, main
from semel.cli.demo_pipeline import ORDERS, PAYMENTS, SHIPMENTS
from semel.wire.cluster import WireCluster
from tests.spark.conftest import spark

__all__ = ["spark"]

ORDERS_IN = 80
ORDER_ID = "get_json_object(string(value), '$.id')"


@pytest.mark.full
def test_the_audit_of_the_demo_comes_to_the_demo_s_own_count(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    own_count, audits = demo_orders.count_effects, list[tuple[int, dict[str, int]]]()

    def audited(client: WireCluster, orders: int) -> demo_orders.Count:
        """While the cluster of a run is still there: each order is one payment and one shipment."""
        sides = [f"kafka://{client.settings.addresses}/{name}" for name in (ORDERS, PAYMENTS, SHIPMENTS)]
        capsys.readouterr()
        code = main(["audit", *sides, "--key", ORDER_ID, "--content", ORDER_ID, "--format", "json"])
        told: Counter[str] = Counter()
        for one in json.loads(capsys.readouterr().out)["comparisons"]:
            told.update({row["kind"]: row["count"] for row in one["findings"]})
            told["records_out"] += one["totals"]["right"]
        audits.append((code, dict(told)))
        return own_count(client, orders)

    monkeypatch.setattr(demo_orders, "count_effects", audited)
    assert main(["demo", "--orders", str(ORDERS_IN), "--format", "json"]) == 0
    runs = json.loads(capsys.readouterr().out)["runs"]
    assert [one["guarantee"] for one in runs] == ["at_least_once", "exactly_once"]
    for run, (code, told) in zip(runs, audits, strict=True):
        assert code == (1 if run["doubled"] else 0)
        own = {"lost": run["lost"], "duplicated": run["doubled"], "unexpected": run["unexpected"], "altered": 0}
        assert told == own | {"records_out": run["records_out"]}
    assert runs[0]["doubled"] > 0
