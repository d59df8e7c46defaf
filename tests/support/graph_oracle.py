"""A graph in memory that answers as Neo4j must: units, edges, policies, and a plain breadth-first search.

It shares no rule with the Cypher but the domain's ``is_visible``. ``write`` puts the same graph into a real database.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta

import neo4j
import numpy as np

from graphsvc.domain.candidates import CatalogEntry, GraphHit, GraphPath, Neighbourhood, SeedLink, TopicHit
from graphsvc.domain.tenancy import Policy, Principal, is_visible
from graphsvc.domain.terms import search_terms, words
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType, EpistemicStatus, Tier
from graphsvc.graph.context_graph import TURN_LIMIT
from graphsvc.graph.scope_terms import policy_clause, scope_terms
from graphsvc.ports import (
    Description,
    DescriptionQuery,
    Descriptions,
    Expansion,
    FoundUnit,
    NeighbourQuery,
    Neighbours,
    Read,
    ReadOptions,
    RecentQuery,
    TopicQuery,
    TopicResult,
    Traversal,
    Vector,
)
from graphsvc.ranking.lexical import bm25, term_coverage, term_frequencies, term_statistics

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class FixedClock:
    """A clock that stands still."""

    time: datetime = EPOCH + timedelta(days=365)

    def now(self) -> datetime:
        return self.time


@dataclass(frozen=True)
class OracleUnit:
    unit_id: str
    agent_id: str = "ann"
    session_id: str = "s1"
    kind: ContextUnitKind = ContextUnitKind.OBSERVATION
    timestamp: datetime = EPOCH
    created_time: datetime = EPOCH
    text: str = ""
    path: str = ""
    embedding: tuple[float, ...] | None = None
    task_step: int = 0
    tool_call_id: str = ""

    def entry(self) -> CatalogEntry:
        return CatalogEntry(
            unit_id=self.unit_id,
            unit_key="key-" + self.unit_id,
            agent_id=self.agent_id,
            session_id=self.session_id,
            task_step=self.task_step,
            kind=self.kind,
            epistemic_status=EpistemicStatus.TENTATIVE,
            timestamp=self.timestamp,
            created_time=self.created_time,
            path=self.path,
            model="",
            tier=Tier.WARM,
            relevance_score=0.0,
            pinned=False,
            content_sha256="",
            size_bytes=len(self.text.encode()),
            token_counts={"cl100k_base": 1, "o200k_base": 1},
        )

    def terms(self) -> str:
        return term_frequencies(self.text, self.path)

    def same_owner(self, other: OracleUnit) -> bool:
        return (self.agent_id, self.session_id) == (other.agent_id, other.session_id)


@dataclass(frozen=True)
class OracleEdge:
    source: str
    target: str
    edge_type: EdgeType
    role: str = ""
    weight: float = 1.0


@dataclass
class OracleGraph:
    """One tenant's graph, and the port ContextGraph over it."""

    tenant_id: str
    units: dict[str, OracleUnit] = field(default_factory=dict)
    edges: list[OracleEdge] = field(default_factory=list)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    policies: list[Policy] = field(default_factory=list)
    rejects: dict[str, set[str]] = field(default_factory=dict)
    clock: FixedClock = FixedClock()

    # Building

    def add(self, *units: OracleUnit) -> None:
        self.units.update({unit.unit_id: unit for unit in units})

    def link(
        self, source: str, target: str, edge_type: EdgeType = EdgeType.DEPENDENCY, role: str = "", weight: float = 1.0
    ) -> None:
        self.edges.append(OracleEdge(source, target, edge_type, role, weight))

    def share(
        self,
        owner_agent_id: str = "",
        owner_session_id: str = "",
        grantee_agent_id: str = "",
        grantee_session_id: str = "",
        kinds: Iterable[ContextUnitKind] = ContextUnitKind,
        expires_time: datetime | None = None,
    ) -> None:
        self.policies.append(
            Policy(
                policy_id=f"p{len(self.policies)}",
                tenant_id=self.tenant_id,
                owner_agent_id=owner_agent_id,
                owner_session_id=owner_session_id,
                grantee_agent_id=grantee_agent_id,
                grantee_session_id=grantee_session_id,
                kinds=frozenset(kinds),
                created_time=EPOCH,
                created_by=owner_agent_id,
                expires_time=expires_time,
            )
        )

    def move_to(self, tenant_id: str) -> None:
        """Makes it another tenant's graph."""
        self.tenant_id = tenant_id
        self.policies = [replace(policy, tenant_id=tenant_id) for policy in self.policies]

    def is_current(self, unit: OracleUnit) -> bool:
        """The property ``current``: no successor of the same agent, session and kind."""
        return not any(
            edge.edge_type is EdgeType.SUPERSESSION
            and edge.target == unit.unit_id
            and (s := self.units[edge.source]).agent_id == unit.agent_id
            and s.session_id == unit.session_id
            and s.kind is unit.kind
            for edge in self.edges
        )

    # Answering

    def sees(self, principal: Principal, unit_id: str, as_of: datetime | None = None) -> bool:
        unit = self.units.get(unit_id)
        return (
            unit is not None
            and is_visible(
                principal,
                self.policies,
                tenant_id=self.tenant_id,
                agent_id=unit.agent_id,
                session_id=unit.session_id,
                kind=unit.kind,
                now=self.clock.now(),
            )
            and (as_of is None or unit.timestamp <= as_of)
        )

    def successor(self, principal: Principal, unit_id: str, as_of: datetime | None) -> str:
        return min(
            (
                e.source
                for e in self.edges
                if e.edge_type is EdgeType.SUPERSESSION
                and e.target == unit_id
                and self.sees(principal, e.source, as_of)
            ),
            default="",
        )

    def _edges_of(self, unit_id: str) -> Iterator[tuple[str, OracleEdge, Direction]]:
        """The other end of each edge, the edge, and which way it leads from the unit."""
        for edge in self.edges:
            if edge.source == unit_id:
                yield edge.target, edge, Direction.OUTGOING
            elif edge.target == unit_id:
                yield edge.source, edge, Direction.INCOMING

    async def expand(self, principal: Principal, traversal: Traversal, options: ReadOptions) -> Read[Expansion]:
        """Plain breadth-first search by levels."""
        as_of = traversal.as_of
        directions = traversal.directions or dict.fromkeys(EdgeType, Direction.BOTH)
        wanted = traversal.wanted or frozenset(directions)
        visible = {u for u in self.units if self.sees(principal, u, as_of)}
        blocked = self.rejects.get(traversal.fingerprint, set())
        candidates = visible & set(traversal.candidate_ids)

        Path = tuple[tuple[EdgeType, ...], tuple[str, ...]]
        levels: list[dict[str, Path]] = [{u: ((), (u,)) for u in traversal.unit_ids if u in visible}]
        seen = set(levels[0])

        def order(path: Path) -> tuple[int, list[str], list[str]]:
            types, ids = path
            return -sum(t in wanted for t in types), [t.relationship_type for t in types], list(ids)

        tasks = {t for t in traversal.task_ids if any(u in visible for u in self.tasks.get(t, ()))}
        partial = False
        while len(levels) <= traversal.max_hops:
            nearest = sum(
                u not in blocked and not self.successor(principal, u, as_of) for level in levels for u in level
            )
            first = len(levels) == 1
            if not first and nearest >= traversal.limit and candidates <= seen:
                break
            found: dict[str, list[Path]] = {}
            for unit_id, (types, ids) in levels[-1].items():
                around = [(n, e.edge_type, way) for n, e, way in self._edges_of(unit_id) if n in visible]
                if not first and len(around) >= traversal.hub_degree_cap:
                    continue
                for neighbour, edge_type, way in around:
                    allowed = directions.get(edge_type)
                    if neighbour not in seen and allowed in (Direction.BOTH, way):
                        found.setdefault(neighbour, []).append(((*types, edge_type), (*ids, neighbour)))
            if first:
                for task in tasks:
                    for unit_id in self.tasks[task]:
                        if unit_id in visible and unit_id not in seen:
                            path = ((EdgeType.DEPENDENCY,), ("task:" + task, unit_id))
                            found.setdefault(unit_id, []).append(path)
            partial = partial or sum(map(len, found.values())) > traversal.scan_limit
            levels.append({unit_id: min(paths, key=order) for unit_id, paths in found.items()})
            seen |= set(levels[-1])

        hits = [
            GraphHit(
                entry=self.units[unit_id].entry(),
                path=GraphPath(len(types), types, ids, sum(t in wanted for t in types)),
                superseded_by=self.successor(principal, unit_id, as_of),
            )
            for level in levels
            for unit_id, (types, ids) in level.items()
            if unit_id not in blocked
        ]
        hits.sort(key=lambda hit: (hit.path.hop_count, -hit.path.match_count, hit.entry.unit_id))
        kept: set[str] = set()
        for superseded in (False, True):
            same = [hit.entry.unit_id for hit in hits if bool(hit.superseded_by) is superseded]
            kept |= set(same[: traversal.limit])
        return Read(
            Expansion(
                hits=tuple(hit for hit in hits if hit.entry.unit_id in kept | candidates),
                anchor_ids=tuple(sorted([*("task:" + t for t in tasks), *levels[0]])),
                partial=partial,
                blocked_count=len(seen & blocked),
            )
        )

    async def search(self, principal: Principal, query: TopicQuery, options: ReadOptions) -> Read[TopicResult]:
        """Units with a word in common, scored by these, and exact cosines."""
        blocked = self.rejects.get(query.fingerprint, set())
        text: set[str] = set()
        vector: dict[str, float] = {}
        for unit in self.units.values():
            if not self.sees(principal, unit.unit_id, query.as_of) or (query.kinds and unit.kind not in query.kinds):
                continue
            if query.as_of is None and not self.is_current(unit):
                continue
            if bm25(term_statistics(query.text, [unit.terms()]), [unit.terms()])[0]:
                text.add(unit.unit_id)
            if query.embedding is not None and unit.embedding is not None:
                vector[unit.unit_id] = cosine(query.embedding, unit.embedding)
        found = text | vector.keys()
        statistics = term_statistics(query.text, [self.units[u].terms() for u in sorted(text - blocked)])
        scores = {u: bm25(statistics, [self.units[u].terms()])[0] for u in text}
        best: set[str] = set()
        for ranking in (scores, vector):
            ranked = sorted((u for u in ranking if u not in blocked), key=lambda u: (-ranking[u], u))
            best |= set(ranked[: query.limit])
        hits = tuple(
            TopicHit(
                entry=self.units[u].entry(),
                full_text_score=scores.get(u),
                vector_score=vector.get(u),
                superseded_by=self.successor(principal, u, query.as_of),
                term_coverage=term_coverage(statistics, [self.units[u].terms()])[0] if u in text else 0.0,
            )
            for u in sorted(best)
        )
        return Read(
            TopicResult(
                hits=hits,
                usable_terms=bool(words(query.text)),
                partial=False,
                blocked_count=len(found & blocked),
                visible_scopes=int(any(self.sees(principal, u) for u in self.units)),
                statistics=statistics,
                sample=tuple(
                    np.asarray(self.units[u].embedding, np.float32)
                    for u in sorted(vector.keys() - blocked, key=lambda u: (-vector[u], u))[:50]
                ),
            )
        )

    def _found(self, principal: Principal, unit_ids: Iterable[str], as_of: datetime | None) -> tuple[FoundUnit, ...]:
        return tuple(FoundUnit(self.units[u].entry(), self.successor(principal, u, as_of)) for u in sorted(unit_ids))

    async def neighbours(self, principal: Principal, query: NeighbourQuery, options: ReadOptions) -> Read[Neighbours]:
        """Every edge and every unit of the session is looked at for every seed."""
        visible = {u for u in self.units if self.sees(principal, u, query.as_of)}
        seeds = visible & set(query.seed_ids)

        def linking(unit_id: str) -> list[tuple[str, OracleEdge, Direction]]:
            return [
                (other, edge, way)
                for other, edge, way in self._edges_of(unit_id)
                if other in visible and edge.edge_type is not EdgeType.SUPERSESSION
            ]

        def in_degree(unit_id: str) -> int:
            leading_here = [edge for _, edge, way in linking(unit_id) if way is Direction.INCOMING]
            return min(len(leading_here), query.edge_limit)

        links: dict[str, dict[tuple[str, EdgeType, Direction], float]] = {}
        turns: dict[str, list[tuple[str, int]]] = {}
        for seed in seeds:
            around = linking(seed)
            for other, edge, way in around if len(around) <= query.edge_limit else ():
                weights = links.setdefault(other, {})
                name = (seed, edge.edge_type, way)
                weights[name] = max(edge.weight, weights.get(name, 0.0))
            steps = {
                u: self.units[u].task_step - self.units[seed].task_step
                for u in visible - {seed}
                if self.units[u].same_owner(self.units[seed])
            }
            near = {u: step for u, step in steps.items() if abs(step) <= 2}
            for u, step in near.items() if len(near) <= TURN_LIMIT else ():
                if step:
                    turns.setdefault(u, []).append((seed, step))

        fresh = {
            u
            for u in links.keys() | turns.keys()
            if u not in query.candidate_ids and (not query.kinds or self.units[u].kind in query.kinds)
        }
        blocked = self.rejects.get(query.fingerprint, set())
        return Read(
            Neighbours(
                units=self._found(principal, fresh - blocked, query.as_of),
                neighbourhoods={
                    u: Neighbourhood(
                        links=tuple(
                            SeedLink(seed, edge_type, way, weight)
                            for (seed, edge_type, way), weight in sorted(links.get(u, {}).items())
                        ),
                        turns=tuple(sorted(turns.get(u, []))),
                        in_degree=in_degree(u) if u in links else 0,
                    )
                    for u in links.keys() | turns.keys()
                },
                blocked_count=len(fresh & blocked),
            )
        )

    def _description(self, unit: OracleUnit, query: DescriptionQuery) -> Description:
        return Description(
            full_text_score=bm25(query.statistics, [unit.terms()])[0] or None,
            vector_score=(
                None if query.embedding is None or unit.embedding is None else cosine(query.embedding, unit.embedding)
            ),
            term_coverage=term_coverage(query.statistics, [unit.terms()])[0],
            lead=unit.text[:96],
        )

    async def describe(self, principal: Principal, query: DescriptionQuery, options: ReadOptions) -> Read[Descriptions]:
        """What is needed, and what that needs, until nothing is new."""
        visible = {u for u in self.units if self.sees(principal, u, query.as_of)}
        blocked = self.rejects.get(query.fingerprint, set())

        def same_call(one: str, other: str) -> bool:
            a, b = self.units[one], self.units[other]
            return a.same_owner(b) and a.tool_call_id == b.tool_call_id != ""

        def is_replaced(unit_id: str) -> bool:
            """Whether the same tool call holds a newer version of it."""
            return any(
                edge.edge_type is EdgeType.SUPERSESSION
                and way is Direction.INCOMING
                and newer in visible
                and same_call(newer, unit_id)
                and self.units[newer].kind is self.units[unit_id].kind
                for newer, edge, way in self._edges_of(unit_id)
            )

        def needed(unit_id: str) -> tuple[str, ...]:
            call = sorted(u for u in visible - {unit_id} if same_call(u, unit_id) and not is_replaced(u))
            headers = sorted(
                other
                for other, edge, way in self._edges_of(unit_id)
                if other in visible
                and edge.role == "header"
                and edge.edge_type is EdgeType.PROVENANCE
                and way is Direction.OUTGOING
            )
            return tuple(sorted({*call[:8], *headers[:8]}))

        readers = visible & set(query.candidate_ids)
        companion_ids: dict[str, tuple[str, ...]] = {}
        while readers - companion_ids.keys():
            companion_ids |= {u: needed(u) for u in readers}
            readers = {c for needed_ids in companion_ids.values() for c in needed_ids} - blocked
        found = {c for needed_ids in companion_ids.values() for c in needed_ids}
        new = found - blocked - set(query.candidate_ids)
        return Read(
            Descriptions(
                by_id={u: self._description(self.units[u], query) for u in (visible & set(query.candidate_ids)) | new},
                units=self._found(principal, new, query.as_of),
                companion_ids={u: needed_ids for u, needed_ids in companion_ids.items() if needed_ids},
                blocked_ids=frozenset(found & blocked),
            )
        )

    async def list_recent(
        self, principal: Principal, query: RecentQuery, options: ReadOptions
    ) -> Read[tuple[CatalogEntry, ...]]:
        own = [
            unit
            for unit in self.units.values()
            if principal.session_id
            and (unit.agent_id, unit.session_id) == (principal.agent_id, principal.session_id)
            and self.sees(principal, unit.unit_id, query.as_of)
        ]
        own.sort(key=lambda unit: (-unit.created_time.timestamp(), unit.unit_id))
        blocked = self.rejects.get(query.fingerprint, set())
        return Read(
            tuple(
                unit.entry()
                for unit in own[: query.limit]
                if unit.unit_id not in blocked and not self.successor(principal, unit.unit_id, query.as_of)
            )
        )

    # Writing

    async def write(self, driver: neo4j.AsyncDriver) -> None:
        """Puts the graph into a real database, by statements of this test's own."""
        await write_all(driver, [self])


def cosine(query: Vector, embedding: tuple[float, ...]) -> float:
    a, b = np.asarray(query, np.float64), np.asarray(embedding, np.float64)
    return float(a @ b / math.sqrt(float(a @ a) * float(b @ b)))


async def write_all(driver: neo4j.AsyncDriver, graphs: Iterable[OracleGraph]) -> None:
    """Puts several tenants into a real database in a few statements."""
    units, edges, tasks, policies, rejects = [], [], [], [], []
    for graph in graphs:
        tenant = graph.tenant_id
        units += [_properties(graph, unit) for unit in graph.units.values()]
        edges += [
            {
                "tenant_id": tenant,
                "source": e.source,
                "target": e.target,
                "type": e.edge_type.relationship_type,
                "role": e.role,
                "weight": e.weight,
            }
            for e in graph.edges
        ]
        tasks += [{"tenant_id": tenant, "task": t, "unit": u} for t, ids in graph.tasks.items() for u in ids]
        policies += [
            {
                "tenant_id": tenant,
                "policy_id": p.policy_id,
                "owner_agent_id": p.owner_agent_id,
                "owner_session_id": p.owner_session_id,
                "grantee_agent_id": p.grantee_agent_id,
                "grantee_session_id": p.grantee_session_id,
                "kinds": sorted(p.kinds),
                "created_time": p.created_time,
                "created_by": p.created_by,
                "expires_time": p.expires_time,
                "scope_clause": policy_clause(p),
            }
            for p in graph.policies
        ]
        rejects += [
            {"tenant_id": tenant, "fingerprint": f, "unit": u, "lifted_time": None, "expires_time": None}
            for f, ids in graph.rejects.items()
            for u in ids
        ]
    for rows, statement in (
        (
            units,
            """
            UNWIND $rows AS row
            CREATE (unit:ContextUnit) SET unit = row.properties
            FOREACH (embedding IN row.embedding |
              CREATE (unit)-[:HAS_EMBEDDING]->(e:UnitEmbedding) SET e = embedding)
            """,
        ),
        (
            edges,
            """
            CYPHER 25 UNWIND $rows AS row
            MATCH (a:ContextUnit {tenant_id: row.tenant_id, unit_id: row.source})
            MATCH (b:ContextUnit {tenant_id: row.tenant_id, unit_id: row.target})
            CREATE (a)-[:$(row.type) {role: row.role, weight: row.weight}]->(b)
            """,
        ),
        (
            tasks,
            """
            UNWIND $rows AS row
            MATCH (unit:ContextUnit {tenant_id: row.tenant_id, unit_id: row.unit})
            MERGE (task:Task {tenant_id: row.tenant_id, task_id: row.task})
            CREATE (task)-[:DEPENDENCY {role: 'task', weight: 1.0}]->(unit)
            """,
        ),
        (policies, "UNWIND $rows AS row CREATE (policy:Policy) SET policy = row"),
        (
            rejects,
            """
            UNWIND $rows AS row
            MATCH (unit:ContextUnit {tenant_id: row.tenant_id, unit_id: row.unit})
            MERGE (query:Query {tenant_id: row.tenant_id, fingerprint: row.fingerprint})
            CREATE (query)-[r:REJECTS {reason: 'DOMAIN_MISMATCH'}]->(unit)
            SET r.lifted_time = row.lifted_time, r.expires_time = row.expires_time
            """,
        ),
    ):
        for start in range(0, len(rows), 1000):
            await driver.execute_query(statement, rows=rows[start : start + 1000], database_="neo4j")


def _properties(graph: OracleGraph, unit: OracleUnit) -> dict[str, object]:
    current = graph.is_current(unit) if len(graph.units) <= 1000 else True
    owner = {
        "tenant_id": graph.tenant_id,
        "unit_id": unit.unit_id,
        "agent_id": unit.agent_id,
        "session_id": unit.session_id,
        "kind": unit.kind.value,
        "current": current,
    }
    return {
        "properties": owner
        | {
            "unit_key": "key-" + unit.unit_id,
            "task_id": "",
            "task_step": unit.task_step,
            "tool_call_id": unit.tool_call_id or None,
            "epistemic_status": "tentative",
            "timestamp": unit.timestamp,
            "created_time": unit.created_time,
            "path": unit.path,
            "model": "",
            "pinned": False,
            "tier": "warm",
            "relevance_score": 0.0,
            "content_sha256": "",
            "size_bytes": len(unit.text.encode()),
            "token_count_cl100k_base": 1,
            "token_count_o200k_base": 1,
            "excerpt": unit.text,
            "search_terms": search_terms(unit.text, unit.path),
            "term_frequencies": unit.terms(),
            "scope_terms": scope_terms(graph.tenant_id, unit.agent_id, unit.session_id, unit.kind, current),
            "caption": unit.text[:30],
        },
        "embedding": [] if unit.embedding is None else [owner | {"embedding": list(unit.embedding)}],
    }
