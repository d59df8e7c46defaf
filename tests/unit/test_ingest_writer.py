"""Batches: their limits, and what a slow database makes of them."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import cast

import pytest

from graphsvc.client import EdgeInput, GraphsvcCallError, GraphsvcClient, PutOutcome, UnitInput
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ingest.plan import Plan, PlannedEdge, PlannedRelation, PlannedUnit
from graphsvc.ingest.writer import BATCH_UNITS, IngestProgress, KnownSession, Summary, write_plan


class SlowService:
    """Takes puts of so many units and refuses larger ones as too late."""

    def __init__(self, capacity: int, code: str = "DEADLINE_EXCEEDED") -> None:
        self.capacity, self.code = capacity, code
        self.batches: list[list[UnitInput]] = []
        self.edges: list[EdgeInput] = []

    async def put(self, _session: str, units: Iterable[UnitInput]) -> tuple[PutOutcome, ...]:
        batch = list(units)
        if len(batch) > self.capacity:
            raise GraphsvcCallError(self.code, "", "too late")
        self.batches.append(batch)
        return tuple(PutOutcome(f"id-{unit.unit_key}", unit.unit_key, True) for unit in batch)

    async def link(self, _session: str, edges: Iterable[EdgeInput]) -> tuple[bool, ...]:
        part = list(edges)
        assert 1 <= len(part) <= 1000
        self.edges.extend(part)
        return (True,) * len(part)


def plan(count: int, content: str = "text") -> Plan:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    units = tuple(
        PlannedUnit(
            f"k{n}", ContextUnitKind.OBSERVATION, content, now,
            relations=(PlannedRelation(f"k{n - 1}", EdgeType.PROVENANCE, "chunk"),) if n else (),
        )
        for n in range(count)
    )  # fmt: skip
    edges = tuple(PlannedEdge("k0", PlannedRelation(f"k{n}", EdgeType.DEPENDENCY, "imports")) for n in range(1, count))
    return Plan(units, edges, {"files": count}, {})


async def write(service: SlowService, planned: Plan) -> Summary:
    client = cast("GraphsvcClient", service)
    return await write_plan(client, "s", planned, KnownSession({}, {}), IngestProgress())


async def test_batches_keep_the_order_and_their_limits() -> None:
    service = SlowService(BATCH_UNITS)
    summary = await write(service, plan(1203))
    assert [len(batch) for batch in service.batches] == [500, 500, 203]
    assert [u.unit_key for batch in service.batches for u in batch] == [f"k{n}" for n in range(1203)]
    assert len(service.edges) == 1202
    assert summary.created == 1203
    assert summary.edges == {"dependency imports": 1202, "provenance chunk": 1202}


async def test_large_contents_make_small_batches() -> None:
    service = SlowService(BATCH_UNITS)
    await write(service, plan(20, "x" * 400_000))
    assert max(sum(len(u.content) for u in batch) for batch in service.batches) * 4 <= 4 * 2**20
    assert sum(len(batch) for batch in service.batches) == 20


async def test_a_slow_database_gets_smaller_batches() -> None:
    service = SlowService(70)
    summary = await write(service, plan(600))
    assert summary.created == 600
    assert [u.unit_key for batch in service.batches for u in batch] == [f"k{n}" for n in range(600)]
    assert max(len(batch) for batch in service.batches) == 62


@pytest.mark.parametrize(("capacity", "code"), [(0, "DEADLINE_EXCEEDED"), (70, "RESOURCE_EXHAUSTED")])
async def test_other_failures_end_the_ingest(capacity: int, code: str) -> None:
    with pytest.raises(GraphsvcCallError):
        await write(SlowService(capacity, code), plan(600))
