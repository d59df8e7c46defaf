"""Stores under test, in memory or on Neo4j, with short ways to make principals, units and requests."""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count

import numpy as np

from graphsvc.domain.tenancy import DEFAULT_SHARED_KINDS, Policy, Principal, Role
from graphsvc.domain.units import ContextUnit, ContextUnitKind, EdgeType, Relation, unit_id_for
from graphsvc.graph import schema
from graphsvc.graph.catalog import load_catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.feedback_store import GraphFeedbackStore
from graphsvc.graph.predictor_store import GraphPredictorStore
from graphsvc.graph.tenant_store import GraphTenantStore
from graphsvc.graph.unit_store import GraphUnitStore
from graphsvc.ports import (
    Edge,
    FeedbackStore,
    NewUnit,
    PredictorStore,
    ReadOptions,
    TenantStore,
    UnitStore,
    WriteRequest,
)
from tests.support.memory_predictors import MemoryPredictorStore
from tests.support.memory_stores import MemoryFeedbackStore, MemoryGraph, MemoryTenantStore, MemoryUnitStore

START = datetime(2026, 3, 1, 12, 0, 0, 123456, tzinfo=UTC)
DIMENSIONS = 256
READ = ReadOptions(timeout_ms=20_000)


@dataclass
class TickingClock:
    """A clock that moves only when told to."""

    time: datetime = START

    def now(self) -> datetime:
        return self.time

    def tick(self, seconds: float = 1.0) -> datetime:
        self.time += timedelta(seconds=seconds)
        return self.time


@dataclass
class StoreCase:
    """The stores over one graph, and a tenant of its own."""

    name: str
    units: UnitStore
    tenants: TenantStore
    feedback: FeedbackStore
    predictors: PredictorStore
    clock: TickingClock
    tenant_id: str = field(default_factory=lambda: f"t-{uuid.uuid4().hex[:16]}")
    numbers: count[int] = field(default_factory=count)

    def principal(
        self, agent_id: str = "ada", session_id: str = "s1", *roles: Role, tenant_id: str | None = None
    ) -> Principal:
        return Principal(tenant_id or self.tenant_id, agent_id, session_id, frozenset(roles))

    def request(self, request_id: str | None = None, fingerprint: str = "f") -> WriteRequest:
        return WriteRequest(request_id or f"r{next(self.numbers)}", fingerprint, timeout_ms=120_000)

    def unit(
        self,
        principal: Principal,
        key: str,
        *relations: Relation,
        content: str = "",
        kind: ContextUnitKind = ContextUnitKind.OBSERVATION,
        **fields: object,
    ) -> NewUnit:
        return new_unit(principal, key, *relations, now=self.clock.now(), content=content, kind=kind, **fields)

    async def put(self, principal: Principal, *units: NewUnit) -> tuple[str, ...]:
        written = await self.units.put_units(principal, units, self.request())
        return tuple(result.unit_id for result in written.result)

    async def share(
        self,
        owner: Principal,
        *,
        owner_agent_id: str | None = None,
        owner_session_id: str = "",
        grantee_agent_id: str = "",
        grantee_session_id: str = "",
        kinds: frozenset[ContextUnitKind] = DEFAULT_SHARED_KINDS,
        expires_time: datetime | None = None,
    ) -> Policy:
        policy = Policy(
            policy_id=uuid.uuid4().hex[:12],
            tenant_id=owner.tenant_id,
            owner_agent_id=owner.agent_id if owner_agent_id is None else owner_agent_id,
            owner_session_id=owner_session_id,
            grantee_agent_id=grantee_agent_id,
            grantee_session_id=grantee_session_id,
            kinds=kinds,
            created_time=self.clock.now(),
            created_by=owner.agent_id,
            expires_time=expires_time,
        )
        return (await self.tenants.create_policy(owner, policy, self.request())).result


def new_unit(
    principal: Principal,
    key: str,
    *relations: Relation,
    now: datetime,
    content: str = "",
    kind: ContextUnitKind = ContextUnitKind.OBSERVATION,
    **fields: object,
) -> NewUnit:
    """A unit of the principal, with an embedding that depends on its key."""
    text = content or f"text of {key}"
    unit = ContextUnit(
        unit_id=unit_id_for(principal.tenant_id, principal.agent_id, principal.session_id, key),
        unit_key=key,
        tenant_id=principal.tenant_id,
        agent_id=principal.agent_id,
        session_id=principal.session_id,
        kind=kind,
        content=text,
        content_sha256=hashlib.sha256(text.encode()).hexdigest(),
        size_bytes=len(text.encode()),
        relations=relations,
        created_time=now,
        **({"timestamp": now, "token_counts": {"cl100k_base": 3, "o200k_base": 4}} | fields),  # type: ignore[arg-type]
    )
    seed = int(unit.content_sha256[:8], 16)
    vector = np.random.default_rng(seed).normal(size=DIMENSIONS)
    embedding = (vector / np.linalg.norm(vector)).astype(np.float32)
    return NewUnit(unit, embedding, f"terms of {key}", (f"phrase {key}",), "")


def id_of(principal: Principal, key: str) -> str:
    """The unit_id of a principal's key."""
    return unit_id_for(principal.tenant_id, principal.agent_id, principal.session_id, key)


def to(target_id: str, edge_type: EdgeType = EdgeType.DEPENDENCY, role: str = "", weight: float = 1.0) -> Relation:
    """A relation to a unit."""
    return Relation(target_id, edge_type, role, weight)


def supersedes(target_id: str) -> Relation:
    """A SUPERSESSION relation."""
    return Relation(target_id, EdgeType.SUPERSESSION)


def edges(source_id: str, *relations: Relation) -> Sequence[Edge]:
    """Edges of one source."""
    return [Edge(source_id, relation) for relation in relations]


async def memory_case() -> StoreCase:
    """The oracle."""
    clock = TickingClock()
    graph = MemoryGraph(clock)
    return StoreCase(
        "memory",
        MemoryUnitStore(graph),
        MemoryTenantStore(graph),
        MemoryFeedbackStore(graph),
        MemoryPredictorStore(graph),
        clock,
    )


async def neo4j_case(driver: GraphDriver) -> StoreCase:
    """The real stores."""
    clock = TickingClock()
    catalog = load_catalog()
    return StoreCase(
        "neo4j",
        GraphUnitStore(driver, catalog, clock),
        GraphTenantStore(driver, catalog, clock),
        GraphFeedbackStore(driver, catalog, clock),
        GraphPredictorStore(driver, catalog, clock),
        clock,
    )


async def apply_schema(driver: GraphDriver) -> None:
    """Returns when the schema is there."""
    await schema.apply(driver, load_catalog(), DIMENSIONS)
