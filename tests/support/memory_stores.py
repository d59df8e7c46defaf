"""The stores in memory: plain Python, no indexes, no concurrency. What the real ones must agree with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

from graphsvc.domain.candidates import Disposition
from graphsvc.domain.digests import distinct_relations, unit_digest
from graphsvc.domain.errors import (
    AlreadyExists,
    ErrorReason,
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    ResourceExhausted,
)
from graphsvc.domain.outcomes import UnitOutcome
from graphsvc.domain.phrases import normalise_phrase
from graphsvc.domain.tenancy import Policy, Principal, Role, is_visible
from graphsvc.domain.units import ContextUnit, EdgeType, Relation
from graphsvc.ports import (
    ApiKey,
    Clock,
    DeliveredUnit,
    Delivery,
    Edge,
    NewUnit,
    PhraseCounts,
    PutResult,
    Read,
    ReadOptions,
    RetrievalRecord,
    RetrievalStep,
    SessionHistory,
    StoredUnit,
    UnitFilter,
    WriteRequest,
    WriteStatus,
    Written,
)

EdgeName = tuple[str, str, EdgeType, str]
"""source_id, target_id, type, role."""


@dataclass
class MemoryGraph:
    """Everything that the stores share. Units, edges and retrievals are kept by (tenant_id, id)."""

    clock: Clock
    tenants: set[str] = field(default_factory=set)
    units: dict[tuple[str, str], tuple[ContextUnit, str]] = field(default_factory=dict)
    """Unit without content and relations, and its unit_sha256."""
    edges: dict[tuple[str, EdgeName], float] = field(default_factory=dict)
    policies: dict[tuple[str, str], Policy] = field(default_factory=dict)
    requests: dict[tuple[str, str, str], tuple[str, Any]] = field(default_factory=dict)
    keys: dict[str, tuple[ApiKey, str]] = field(default_factory=dict)
    retrievals: dict[tuple[str, str], tuple[Principal, RetrievalRecord]] = field(default_factory=dict)
    contents: dict[tuple[str, str], str] = field(default_factory=dict)
    outcomes: dict[tuple[str, str], tuple[str, dict[str, UnitOutcome]]] = field(default_factory=dict)
    reported_times: dict[tuple[str, str], datetime] = field(default_factory=dict)
    """Fingerprint of the report, and verdict by unit, of a retrieval."""

    def unit(self, tenant_id: str, unit_id: str) -> ContextUnit | None:
        found = self.units.get((tenant_id, unit_id))
        return found[0] if found else None

    def visible(self, principal: Principal, unit_id: str) -> ContextUnit | None:
        unit = self.unit(principal.tenant_id, unit_id)
        if unit is None or not is_visible(
            principal,
            self.policies.values(),
            tenant_id=unit.tenant_id,
            agent_id=unit.agent_id,
            session_id=unit.session_id,
            kind=unit.kind,
            now=self.clock.now(),
        ):
            return None
        return unit

    def own(self, principal: Principal, unit_id: str) -> ContextUnit | None:
        unit = self.unit(principal.tenant_id, unit_id)
        if unit is None or (unit.agent_id, unit.session_id) != (principal.agent_id, principal.session_id):
            return None
        return unit

    def replayed(self, principal: Principal, request: WriteRequest) -> Any | None:
        """The first result of this request, if it was carried out; refuses unknown tenants and reused ids."""
        if principal.tenant_id not in self.tenants:
            raise NotFound(ErrorReason.TENANT_NOT_FOUND, "tenant")
        found = self.requests.get((principal.tenant_id, principal.agent_id, request.request_id))
        if found is None:
            return None
        if found[0] != request.fingerprint:
            raise InvalidArgument(ErrorReason.REQUEST_ID_REUSED, "request_id")
        return found[1]

    def keep(self, principal: Principal, request: WriteRequest, result: Any) -> None:
        self.requests[principal.tenant_id, principal.agent_id, request.request_id] = (request.fingerprint, result)

    def stored(self, principal: Principal, unit: ContextUnit) -> StoredUnit:
        """The unit with relations and successor as this principal sees them."""
        relations = tuple(
            Relation(target, edge_type, role, weight)
            for (tenant_id, (source, target, edge_type, role)), weight in self.edges.items()
            if (tenant_id, source) == (unit.tenant_id, unit.unit_id) and self.visible(principal, target)
        )
        successors = [
            source
            for tenant_id, (source, target, edge_type, _) in self.edges
            if (tenant_id, target, edge_type) == (unit.tenant_id, unit.unit_id, EdgeType.SUPERSESSION)
            and self.visible(principal, source)
        ]
        return StoredUnit(replace(unit, relations=distinct_relations(relations)), min(successors, default=""))


class MemoryUnitStore:
    """UnitStore in memory."""

    def __init__(self, graph: MemoryGraph) -> None:
        self._graph = graph

    async def put_units(
        self, principal: Principal, units: Sequence[NewUnit], request: WriteRequest
    ) -> Written[tuple[PutResult, ...]]:
        graph = self._graph
        if not units:
            return Written((), ())
        if (first := graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        batch: dict[str, NewUnit] = {}
        for new in units:
            other = batch.setdefault(new.unit.unit_id, new)
            if unit_digest(other.unit) != unit_digest(new.unit):
                raise AlreadyExists(ErrorReason.UNIT_DIFFERS, "unit", unit_key=new.unit.unit_key)
        places = {unit_id: place for place, unit_id in enumerate(batch)}
        fresh: dict[str, NewUnit] = {}
        for unit_id, new in batch.items():
            known = graph.units.get((principal.tenant_id, unit_id))
            if known is None:
                fresh[unit_id] = new
            elif known[1] != unit_digest(new.unit):
                raise AlreadyExists(ErrorReason.UNIT_DIFFERS, "unit", unit_key=new.unit.unit_key)
        targets = {r.target_id for new in fresh.values() for r in new.unit.relations}
        for target in sorted(targets - set(batch)):
            if graph.visible(principal, target) is None:
                raise NotFound(ErrorReason.UNIT_NOT_FOUND, "unit", unit_id=target)
        first_time = max(new.unit.created_time for new in units)
        for unit_id, new in fresh.items():
            for relation in new.unit.relations:
                if relation.edge_type is not EdgeType.SUPERSESSION:
                    continue
                if relation.target_id in fresh:
                    if places[relation.target_id] >= places[unit_id]:
                        raise FailedPrecondition(ErrorReason.SUPERSESSION_ORDER, "order")
                else:
                    old = graph.unit(principal.tenant_id, relation.target_id)
                    assert old is not None
                    first_time = max(first_time, old.created_time + timedelta(microseconds=1))
        for unit_id, new in fresh.items():
            created_time = first_time + timedelta(microseconds=places[unit_id])
            unit = replace(new.unit, content="", relations=(), created_time=created_time)
            graph.units[principal.tenant_id, unit_id] = (unit, unit_digest(new.unit))
            graph.contents[principal.tenant_id, unit_id] = new.unit.content
            for r in distinct_relations(new.unit.relations):
                graph.edges[principal.tenant_id, (unit_id, r.target_id, r.edge_type, r.role)] = r.weight
        seen: set[str] = set()
        results: list[PutResult] = []
        for new in units:
            unit_id = new.unit.unit_id
            created = unit_id in fresh and unit_id not in seen
            results.append(PutResult(unit_id, WriteStatus.CREATED if created else WriteStatus.EXISTING))
            seen.add(unit_id)
        graph.keep(principal, request, tuple(results))
        return Written(tuple(results), ())

    async def get_units(
        self, principal: Principal, unit_ids: Sequence[str], options: ReadOptions
    ) -> Read[tuple[StoredUnit, ...]]:
        found = (self._graph.visible(principal, unit_id) for unit_id in unit_ids)
        return Read(tuple(self._graph.stored(principal, unit) for unit in found if unit is not None))

    async def list_units(
        self,
        principal: Principal,
        where: UnitFilter,
        after: tuple[datetime, str] | None,
        limit: int,
        options: ReadOptions,
    ) -> Read[tuple[StoredUnit, ...]]:
        def wanted(stored: StoredUnit) -> bool:
            unit = stored.unit
            return (
                (not where.kinds or unit.kind in where.kinds)
                and where.agent_id in ("", unit.agent_id)
                and where.session_id in ("", unit.session_id)
                and where.task_id in ("", unit.task_id)
                and unit.path.startswith(where.path_prefix)
                and (not where.own_only or self._graph.own(principal, unit.unit_id) is not None)
                and (not where.current_only or not stored.superseded_by)
                and (after is None or (unit.created_time, unit.unit_id) > after)
            )

        every = (
            self._graph.stored(principal, unit)
            for (tenant_id, unit_id), (unit, _) in self._graph.units.items()
            if tenant_id == principal.tenant_id and self._graph.visible(principal, unit_id)
        )
        page = sorted(filter(wanted, every), key=lambda s: (s.unit.created_time, s.unit.unit_id))
        return Read(tuple(page[:limit]))

    async def delete_units(
        self, principal: Principal, unit_ids: Sequence[str], request: WriteRequest
    ) -> Written[tuple[tuple[str, str], ...]]:
        graph = self._graph
        if (first := graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        removed: list[tuple[str, str]] = []
        for unit_id in sorted(set(unit_ids)):
            unit = graph.own(principal, unit_id)
            if unit is None:
                continue
            removed.append((unit_id, unit.content_sha256))
            tenant_edges = [name for tenant_id, name in graph.edges if tenant_id == principal.tenant_id]
            later = [n for n in tenant_edges if n[1] == unit_id and n[2] is EdgeType.SUPERSESSION]
            earlier = [n for n in tenant_edges if n[0] == unit_id and n[2] is EdgeType.SUPERSESSION]
            for successor, _, _, role in sorted(later, key=lambda n: n[3]):
                for _, predecessor, _, _ in earlier:
                    if not any(n[:3] == (successor, predecessor, EdgeType.SUPERSESSION) for _, n in graph.edges):
                        weight = max(graph.edges[principal.tenant_id, n] for n in later if n[0] == successor)
                        name = (successor, predecessor, EdgeType.SUPERSESSION, role)
                        graph.edges[principal.tenant_id, name] = weight
            for name in tenant_edges:
                if unit_id in name[:2]:
                    del graph.edges[principal.tenant_id, name]
            del graph.units[principal.tenant_id, unit_id]
        graph.keep(principal, request, tuple(removed))
        return Written(tuple(removed), ())

    async def link(
        self, principal: Principal, edges: Sequence[Edge], request: WriteRequest
    ) -> Written[tuple[WriteStatus, ...]]:
        graph = self._graph
        if (first := graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        additions: dict[EdgeName, float] = {}
        statuses: list[WriteStatus] = []
        missing = [edge.source_id for edge in edges if graph.own(principal, edge.source_id) is None]
        missing += [e.relation.target_id for e in edges if graph.visible(principal, e.relation.target_id) is None]
        if missing:
            raise NotFound(ErrorReason.UNIT_NOT_FOUND, "unit", unit_id=missing[0])
        for edge in edges:
            source = graph.own(principal, edge.source_id)
            target = graph.visible(principal, edge.relation.target_id)
            assert source is not None
            assert target is not None
            name = _edge_name(edge)
            there = name in additions or (principal.tenant_id, name) in graph.edges
            if (
                not there
                and edge.relation.edge_type is EdgeType.SUPERSESSION
                and (source.created_time, source.unit_id) <= (target.created_time, target.unit_id)
            ):
                raise FailedPrecondition(ErrorReason.SUPERSESSION_ORDER, "order")
            if not there:
                additions[name] = edge.relation.weight
            statuses.append(WriteStatus.EXISTING if there else WriteStatus.CREATED)
        for name, weight in additions.items():
            graph.edges[principal.tenant_id, name] = weight
        graph.keep(principal, request, tuple(statuses))
        return Written(tuple(statuses), ())

    async def unlink(self, principal: Principal, edges: Sequence[Edge], request: WriteRequest) -> Written[int]:
        graph = self._graph
        if (first := graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        removed = 0
        for edge in edges:
            name = _edge_name(edge)
            if graph.own(principal, name[0]) and graph.visible(principal, name[1]):
                removed += graph.edges.pop((principal.tenant_id, name), None) is not None
        graph.keep(principal, request, removed)
        return Written(removed, ())

    async def existing_content(self, tenant_id: str, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        return frozenset(
            (unit_id, digest)
            for unit_id, digest in keys
            if (unit := self._graph.unit(tenant_id, unit_id)) and unit.content_sha256 == digest
        )


def _edge_name(edge: Edge) -> EdgeName:
    return (edge.source_id, edge.relation.target_id, edge.relation.edge_type, edge.relation.role)


class MemoryTenantStore:
    """TenantStore in memory."""

    def __init__(self, graph: MemoryGraph) -> None:
        self._graph = graph

    async def create_tenant(self, tenant_id: str) -> WriteStatus:
        status = WriteStatus.EXISTING if tenant_id in self._graph.tenants else WriteStatus.CREATED
        self._graph.tenants.add(tenant_id)
        return status

    async def create_key(self, key: ApiKey, secret_sha256: str) -> None:
        if key.tenant_id not in self._graph.tenants:
            raise NotFound(ErrorReason.TENANT_NOT_FOUND, "tenant")
        self._graph.keys[key.key_id] = (key, secret_sha256)

    async def find_key(self, key_id: str) -> tuple[ApiKey, str] | None:
        found = self._graph.keys.get(key_id)
        if found is None or (found[0].expires_time is not None and found[0].expires_time <= self._graph.clock.now()):
            return None
        return found

    async def list_keys(self, tenant_id: str) -> tuple[ApiKey, ...]:
        keys = (key for key, _ in self._graph.keys.values() if key.tenant_id == tenant_id)
        return tuple(sorted(keys, key=lambda key: (key.created_time, key.key_id)))

    async def revoke_key(self, tenant_id: str, key_id: str) -> bool:
        found = self._graph.keys.get(key_id)
        if found is None or found[0].tenant_id != tenant_id:
            return False
        del self._graph.keys[key_id]
        return True

    async def create_policy(self, principal: Principal, policy: Policy, request: WriteRequest) -> Written[Policy]:
        graph = self._graph
        if (first := graph.replayed(principal, request)) is not None:
            return Written(first, (), replayed=True)
        others = [p for (tenant_id, _), p in graph.policies.items() if tenant_id == principal.tenant_id]
        grantee = (policy.grantee_agent_id, policy.grantee_session_id)
        same = [p for p in others if (p.grantee_agent_id, p.grantee_session_id) == grantee]
        if len(others) >= 1000 or len(same) >= 64:
            raise ResourceExhausted(ErrorReason.LIMIT_EXCEEDED, "policies")
        graph.policies[principal.tenant_id, policy.policy_id] = policy
        graph.keep(principal, request, policy)
        return Written(policy, ())

    async def list_policies(
        self, principal: Principal, after: tuple[datetime, str] | None, limit: int, options: ReadOptions
    ) -> Read[tuple[Policy, ...]]:
        def wanted(policy: Policy) -> bool:
            is_grantee = policy.grantee_agent_id in ("", principal.agent_id) and (
                not principal.session_id or policy.grantee_session_id in ("", principal.session_id)
            )
            return (
                policy.tenant_id == principal.tenant_id
                and (Role.ADMIN in principal.roles or policy.owner_agent_id == principal.agent_id or is_grantee)
                and (after is None or (policy.created_time, policy.policy_id) > after)
            )

        page = sorted(filter(wanted, self._graph.policies.values()), key=lambda p: (p.created_time, p.policy_id))
        return Read(tuple(page[:limit]))

    async def delete_policy(self, principal: Principal, policy_id: str, request: WriteRequest) -> Written[bool]:
        graph = self._graph
        if graph.replayed(principal, request) is not None:
            return Written(True, (), replayed=True)
        policy = graph.policies.get((principal.tenant_id, policy_id))
        if policy is None or not (Role.ADMIN in principal.roles or policy.owner_agent_id == principal.agent_id):
            raise NotFound(ErrorReason.POLICY_NOT_FOUND, "policy")
        del graph.policies[principal.tenant_id, policy_id]
        graph.keep(principal, request, True)
        return Written(True, ())


class MemoryFeedbackStore:
    """FeedbackStore in memory."""

    def __init__(self, graph: MemoryGraph) -> None:
        self._graph = graph

    async def record_retrieval(self, principal: Principal, record: RetrievalRecord, timeout_ms: int) -> Written[None]:
        if principal.tenant_id not in self._graph.tenants:
            raise NotFound(ErrorReason.TENANT_NOT_FOUND, "tenant")
        kept = tuple(s for s in record.selections if self._graph.unit(principal.tenant_id, s.unit_id))
        lowered = tuple(u for u in record.lowered_ids if self._graph.unit(principal.tenant_id, u))
        self._graph.retrievals[principal.tenant_id, record.retrieval_id] = (
            principal,
            replace(record, selections=kept, lowered_ids=lowered, deferred_ids=tuple(sorted(record.deferred_ids))),
        )
        return Written(None, ())

    async def get_retrieval(
        self, principal: Principal, retrieval_id: str, options: ReadOptions
    ) -> Read[RetrievalRecord]:
        found = self._graph.retrievals.get((principal.tenant_id, retrieval_id))
        if found is None or not _same_session(found[0], principal):
            raise NotFound(ErrorReason.RETRIEVAL_NOT_FOUND, "retrieval")
        selections = (s for s in found[1].selections if self._graph.visible(principal, s.unit_id))
        ranked = tuple(sorted(selections, key=lambda s: (s.rank, s.unit_id)))
        return Read(replace(found[1], selections=ranked, lowered_ids=()))

    async def read_session(self, principal: Principal, options: ReadOptions) -> Read[SessionHistory]:
        own = [
            record
            for (tenant_id, _), (owner, record) in self._graph.retrievals.items()
            if tenant_id == principal.tenant_id and _same_session(owner, principal)
        ]
        own.sort(key=lambda r: r.created_time, reverse=True)
        counts: dict[str, int] = {}
        for record in own[:50]:
            verdicts = self._graph.outcomes.get((principal.tenant_id, record.retrieval_id), ("", {}))[1]
            referenced = {one.unit_id for one in verdicts.values() if one.referenced}
            for unit_id in self._selected(principal, record):
                if unit_id not in referenced and self._graph.visible(principal, unit_id):
                    counts[unit_id] = counts.get(unit_id, 0) + 1
        steps = tuple(
            RetrievalStep(
                record.task_step, frozenset(record.deferred_ids), frozenset(self._selected(principal, record))
            )
            for record in own[:8]
        )
        lowered = (u for record in own for u in record.lowered_ids if self._graph.unit(principal.tenant_id, u))
        return Read(SessionHistory(counts, steps, frozenset(lowered)))

    async def get_delivery(self, principal: Principal, retrieval_id: str, options: ReadOptions) -> Read[Delivery]:
        record = (await self.get_retrieval(principal, retrieval_id, options)).result
        fingerprint, verdicts = self._graph.outcomes.get((principal.tenant_id, retrieval_id), ("", {}))
        selected = [s for s in record.selections if s.disposition is Disposition.SELECTED]
        ids = [s.unit_id for s in sorted(selected, key=lambda s: (-s.value, s.unit_id))]
        units = [unit for unit_id in ids if (unit := self._graph.visible(principal, unit_id))]
        return Read(
            Delivery(
                retrieval_id=retrieval_id,
                query_text=record.query_text,
                units=tuple(DeliveredUnit(unit.unit_id, unit.content_sha256) for unit in units),
                report_fingerprint=fingerprint,
                outcomes=tuple(verdicts[unit.unit_id] for unit in units if unit.unit_id in verdicts),
            )
        )

    async def count_phrases(
        self, principal: Principal, phrases: Sequence[str], limit: int, options: ReadOptions
    ) -> Read[PhraseCounts]:
        graph, tenant_id = self._graph, principal.tenant_id
        superseded = {name[1] for tenant, name in graph.edges if tenant == tenant_id and self._replaces(tenant, name)}
        texts = [
            normalise_phrase(text)
            for (tenant, unit_id), text in graph.contents.items()
            if tenant == tenant_id and unit_id not in superseded and graph.visible(principal, unit_id)
        ]
        holders = {
            phrase: sum(re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", text) is not None for text in texts)
            for phrase in phrases
        }
        return Read(PhraseCounts(min(len(texts), limit), {p: min(n, limit) for p, n in holders.items()}))

    def _replaces(self, tenant_id: str, name: EdgeName) -> bool:
        new, old = self._graph.unit(tenant_id, name[0]), self._graph.unit(tenant_id, name[1])
        return (
            name[2] is EdgeType.SUPERSESSION
            and new is not None
            and old is not None
            and (new.agent_id, new.session_id, new.kind) == (old.agent_id, old.session_id, old.kind)
        )

    async def record_outcome(
        self,
        principal: Principal,
        retrieval_id: str,
        outcomes: Sequence[UnitOutcome],
        report_fingerprint: str,
        request: WriteRequest,
    ) -> Written[tuple[UnitOutcome, ...]]:
        graph = self._graph
        graph.replayed(principal, request)
        await self.get_retrieval(principal, retrieval_id, ReadOptions())
        place = (principal.tenant_id, retrieval_id)
        replayed = place in graph.outcomes
        if replayed and graph.outcomes[place][0] != report_fingerprint:
            raise AlreadyExists(ErrorReason.OUTCOME_DIFFERS, "outcome")
        if not replayed:
            graph.outcomes[place] = (report_fingerprint, {one.unit_id: one for one in outcomes})
            graph.reported_times[place] = graph.clock.now()
        graph.keep(principal, request, True)
        stored = (await self.get_delivery(principal, retrieval_id, ReadOptions())).result.outcomes
        return Written(stored, (), replayed)

    def _selected(self, principal: Principal, record: RetrievalRecord) -> list[str]:
        return [
            s.unit_id
            for s in record.selections
            if s.disposition is Disposition.SELECTED and self._graph.unit(principal.tenant_id, s.unit_id)
        ]


def _same_session(one: Principal, other: Principal) -> bool:
    return (one.agent_id, one.session_id) == (other.agent_id, other.session_id)
