"""Sends what a plan has and the service lacks, in batches, and counts what became of it."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from graphsvc.client import EdgeInput, GraphsvcCallError, GraphsvcClient, RelationInput, Unit, UnitInput
from graphsvc.domain.units import MAX_BATCH_UNITS, MAX_RELATIONS, ContextUnitKind, EpistemicStatus
from graphsvc.ingest.plan import KnownUnit, Plan, PlannedEdge, PlannedRelation, PlannedUnit

BATCH_UNITS = 500
"""Units a put carries: large enough that transactions cost little, small enough that progress shows."""
_LEAST_UNITS = 10
"""A put that takes too long is not cut into smaller ones than this."""
BATCH_BYTES = 4 * 2**20
"""Content a put carries at most; the service takes 16 MiB."""
_MAX_EDGES = 1000


class IngestProgress:
    """Progress that is not shown; base of those that show it."""

    def say(self, message: str) -> None:
        """Tells one sentence about what happens now."""

    def started(self, total: int) -> None:
        """So many units will be written."""

    def advanced(self, count: int) -> None:
        """So many more have been written."""

    def ended(self) -> None:
        """Writing is over, well or not."""


@dataclass(frozen=True, slots=True)
class KnownSession:
    """What the service holds of the agent's own units in a session.

    Attributes:
        units: by key.
        ids: unit id by key.
    """

    units: Mapping[str, KnownUnit]
    ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Summary:
    """What an ingest did.

    Attributes:
        counts: things in the source, by name.
        created: units written.
        existing: units of the session that were there already.
        edges: typed edges written, by "type role".
        skipped: files left out, by reason.
        seconds: from the first call to the last.
    """

    counts: Mapping[str, int]
    created: int
    existing: int
    edges: Mapping[str, int]
    skipped: Mapping[str, int]
    seconds: float

    @property
    def units_per_second(self) -> float:
        """Units written a second; 0 when there were none."""
        return self.created / self.seconds if self.seconds > 0 else 0.0


@dataclass(slots=True)
class _Counts:
    created: int = 0
    existing: int = 0
    edges: Counter[str] = field(default_factory=Counter[str])


async def read_known(client: GraphsvcClient, session_id: str) -> KnownSession:
    """The calling agent's own units of a session; other agents' units of a session of that name are left out.

    Raises:
        GraphsvcCallError: the service refuses or does not answer.
    """
    agent_id = (await client.get_principal()).agent_id
    found: list[Unit] = [
        unit
        async for unit in client.list(
            session_id, owner_agent_id=agent_id, owner_session_id=session_id, page_size=MAX_BATCH_UNITS
        )
    ]
    key_of = {unit.unit_id: unit.unit_key for unit in found}
    units = {
        unit.unit_key: KnownUnit(
            key=unit.unit_key,
            path=unit.path,
            superseded=bool(unit.superseded_by),
            relations=frozenset(
                PlannedRelation(key_of[relation.target_id], relation.edge_type, relation.role)
                for relation in unit.relations
                if relation.target_id in key_of
            ),
        )
        for unit in found
    }
    return KnownSession(units, {unit.unit_key: unit.unit_id for unit in found})


async def write_plan(
    client: GraphsvcClient, session_id: str, plan: Plan, known: KnownSession, progress: IngestProgress
) -> Summary:
    """What became of the plan; units first, in its order, then the edges between them.

    It may be broken off at any point: each batch is written whole or not, and the next ingest writes what is missing.

    Args:
        client: with the role writer.
        session_id: the session the units belong to.
        plan: made from this ``known``.
        known: what the service holds.
        progress: is told of each batch.

    Raises:
        GraphsvcCallError: the service refuses or does not answer.
    """
    began = time.monotonic()
    counts = _Counts()
    ids = dict(known.ids)
    missing = [unit for unit in plan.units if unit.key not in known.units]
    counts.existing = len(known.units)
    progress.started(len(missing))
    try:
        waiting = deque(_batches(missing))
        largest = BATCH_UNITS
        while waiting:
            batch = waiting.popleft()
            if len(batch) > largest:
                waiting.extendleft((batch[largest:], batch[:largest]))
                continue
            try:
                outcomes = await client.put(session_id, [_input(unit) for unit in batch])
            except GraphsvcCallError as error:
                if error.code != "DEADLINE_EXCEEDED" or len(batch) < 2 * _LEAST_UNITS:
                    raise
                # A slow or busy database: the same units in smaller transactions. Nothing of this one was written.
                largest = len(batch) // 2
                waiting.appendleft(batch)
                continue
            for unit, outcome in zip(batch, outcomes, strict=True):
                ids[unit.key] = outcome.unit_id
                counts.created += outcome.created
                counts.existing += not outcome.created
                if outcome.created:
                    counts.edges.update(_edge_name(relation) for relation in unit.relations[:MAX_RELATIONS])
            progress.advanced(len(batch))
        edges = _missing_edges(plan, known)
        for start in range(0, len(edges), _MAX_EDGES):
            part = edges[start : start + _MAX_EDGES]
            added = await client.link(session_id, [_edge_input(edge, ids) for edge in part])
            counts.edges.update(_edge_name(edge.relation) for edge, new in zip(part, added, strict=True) if new)
    finally:
        progress.ended()
    return Summary(
        counts=plan.counts,
        created=counts.created,
        existing=counts.existing,
        edges=dict(sorted(counts.edges.items())),
        skipped=plan.skipped,
        seconds=time.monotonic() - began,
    )


async def share_session(client: GraphsvcClient, session_id: str) -> bool:
    """Whether a policy had to be made so that all agents of the tenant see every kind of unit of the session.

    Raises:
        GraphsvcCallError: the service refuses or does not answer.
    """
    agent_id = (await client.get_principal()).agent_id
    kinds = frozenset(ContextUnitKind)
    async for policy in client.list_policies():
        if (
            policy.owner_agent_id == agent_id
            and policy.owner_session_id == session_id
            and not policy.grantee_agent_id
            and not policy.grantee_session_id
            and policy.kinds == kinds
            and policy.expires_time is None
        ):
            return False
    await client.create_policy(owner_session_id=session_id, kinds=kinds)
    return True


def _batches(units: Sequence[PlannedUnit]) -> Iterator[list[PlannedUnit]]:
    batch: list[PlannedUnit] = []
    size = 0
    for unit in units:
        # Four bytes a character at most, and a relation is a key of at most 256 bytes.
        unit_size = len(unit.content) * 4 + 512 * (1 + len(unit.relations))
        if batch and (len(batch) >= BATCH_UNITS or size + unit_size > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(unit)
        size += unit_size
    if batch:
        yield batch


def _missing_edges(plan: Plan, known: KnownSession) -> list[PlannedEdge]:
    """Edges that no put carries and the service lacks."""
    missing: dict[PlannedEdge, None] = {}
    for unit in plan.units:
        existing = known.units.get(unit.key)
        late = unit.relations[MAX_RELATIONS:] if existing is None else unit.relations
        for relation in late:
            if existing is None or relation not in existing.relations:
                missing[PlannedEdge(unit.key, relation)] = None
    for edge in plan.edges:
        existing = known.units.get(edge.source_key)
        if existing is None or edge.relation not in existing.relations:
            missing[edge] = None
    return list(missing)


def _input(unit: PlannedUnit) -> UnitInput:
    return UnitInput(
        kind=unit.kind,
        content=unit.content,
        unit_key=unit.key,
        timestamp=unit.timestamp,
        # What stands in a repository is what it says it is.
        epistemic_status=EpistemicStatus.CONFIRMED,
        provenance=unit.provenance,
        relations=[
            RelationInput(relation.edge_type, target_key=relation.target_key, role=relation.role)
            for relation in unit.relations[:MAX_RELATIONS]
        ],
        path=unit.path,
    )


def _edge_input(edge: PlannedEdge, ids: Mapping[str, str]) -> EdgeInput:
    relation = edge.relation
    return EdgeInput(
        ids[edge.source_key],
        RelationInput(relation.edge_type, target_id=ids[relation.target_key], role=relation.role),
    )


def _edge_name(relation: PlannedRelation) -> str:
    return f"{relation.edge_type.value} {relation.role}".strip()
