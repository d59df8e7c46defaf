"""Distance and topic search in Neo4j: the port ContextGraph."""

from __future__ import annotations

from typing import Any

from graphsvc.domain.candidates import CatalogEntry, GraphHit, GraphPath, TopicHit
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.graph.catalog import Catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.query_text import text_clause
from graphsvc.graph.rows import to_caller, to_edge_type, to_entry
from graphsvc.graph.scope_terms import CURRENT_TERM, kinds_clause, own_clause, tenant_term
from graphsvc.ports import Clock, Expansion, Read, ReadOptions, TopicQuery, TopicResult, Traversal
from graphsvc.ranking.lexical import bm25

SCOPE_LIMIT = 100
"""Scopes of a full-text search: each is up to 9 of Lucene's 1,024 clauses, words take 128."""
GROUP_LIMIT = 12
"""Vector searches of one query: each takes milliseconds."""
BLOCKED_ALLOWANCE = 50
"""Rows asked of an index beyond the limit, so that rejected units do not take the places of others."""
AS_OF_FACTOR = 4
"""Rows asked of an index a row wanted when a time is given: indexes hold every version, not its time."""

_ALL_KINDS = frozenset(ContextUnitKind)


class Neo4jContextGraph:
    """The graph as its statements see it.

    Args:
        driver: an open connection.
        catalog: all statements.
        clock: decides which policies and rejections have expired.
    """

    def __init__(self, driver: GraphDriver, catalog: Catalog, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._expand = catalog["expand_from_anchors"]
        self._search = catalog["search_topic"]
        self._list_recent = catalog["list_recent"]

    async def expand(self, principal: Principal, traversal: Traversal, options: ReadOptions) -> Read[Expansion]:
        """As :meth:`graphsvc.ports.ContextGraph.expand`."""
        directions = traversal.directions or dict.fromkeys(EdgeType, Direction.BOTH)
        outgoing = sorted(t.relationship_type for t, way in directions.items() if way is not Direction.INCOMING)
        incoming = sorted(t.relationship_type for t, way in directions.items() if way is not Direction.OUTGOING)
        params: dict[str, Any] = {
            **_scope(principal),
            "now": self._clock.now(),
            "traversal": {
                "task_ids": sorted(set(traversal.task_ids)),
                "unit_ids": sorted(set(traversal.unit_ids)),
                "outgoing_types": outgoing,
                "incoming_types": incoming,
                "wanted_types": sorted(t.relationship_type for t in (traversal.wanted or directions)),
                "max_hops": traversal.max_hops,
                "limit": traversal.limit,
                "candidate_ids": sorted(set(traversal.candidate_ids)),
                "fingerprint": traversal.fingerprint,
                "as_of": traversal.as_of,
                "hub_degree_cap": traversal.hub_degree_cap,
                "scan_limit": traversal.scan_limit,
            },
        }
        rows, seen = await self._driver.read(
            self._expand, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        row = rows[0]
        wanted = traversal.wanted or frozenset(directions)
        hits = [_graph_hit(values, wanted) for values in row["hits"]]
        hits.sort(key=lambda hit: (hit.path.hop_count, -hit.path.match_count, hit.entry.unit_id))
        return Read(Expansion(tuple(hits), tuple(row["anchor_ids"]), row["partial"], row["blocked_count"]), seen)

    async def search(self, principal: Principal, query: TopicQuery, options: ReadOptions) -> Read[TopicResult]:
        """As :meth:`graphsvc.ports.ContextGraph.search`."""
        text = text_clause(query.text)
        current_only = query.as_of is None
        tenant = f"+scope_terms:{tenant_term(principal.tenant_id)}^0"
        narrower = [f"+scope_terms:{CURRENT_TERM}^0"] if current_only else []
        if query.kinds:
            narrower.append(f"+({kinds_clause(query.kinds)})^0")
        params: dict[str, Any] = {
            **_scope(principal),
            "now": self._clock.now(),
            "search": {
                "kinds": sorted(query.kinds or _ALL_KINDS),
                "fingerprint": query.fingerprint,
                "as_of": query.as_of,
                "current": [True] if current_only else [True, False],
                "own_clause": own_clause(principal.tenant_id, principal.agent_id, principal.session_id),
                "tenant_clause": tenant,
                "filter_clause": " ".join([tenant, *narrower]),
                "text_clause": text,
                "embedding": None if query.embedding is None else query.embedding.tolist(),
                "index_limit": (query.limit + BLOCKED_ALLOWANCE if query.fingerprint else query.limit)
                * (1 if current_only else AS_OF_FACTOR),
                "scope_limit": SCOPE_LIMIT,
                "group_limit": GROUP_LIMIT,
            },
        }
        rows, seen = await self._driver.read(
            self._search, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        row = rows[0]
        hits = _best_of_each(_topic_hits(query.text, row["hits"]), query.limit)
        result = TopicResult(hits, text is not None, row["partial"], row["blocked_count"], row["visible_scopes"])
        return Read(result, seen)

    async def list_recent(
        self, principal: Principal, limit: int, options: ReadOptions
    ) -> Read[tuple[CatalogEntry, ...]]:
        """As :meth:`graphsvc.ports.ContextGraph.list_recent`."""
        rows, seen = await self._driver.read(
            self._list_recent,
            {**_scope(principal), "limit": limit},
            bookmarks=options.bookmarks,
            timeout_ms=options.timeout_ms,
        )
        return Read(tuple(to_entry(values) for values in rows[0]["entries"]), seen)


def _scope(principal: Principal) -> dict[str, Any]:
    return {"tenant_id": principal.tenant_id, "caller": to_caller(principal)}


def _graph_hit(values: list[Any], wanted: frozenset[EdgeType]) -> GraphHit:
    edge_types, unit_ids, superseded_by, entry = values
    types = tuple(to_edge_type(name) for name in edge_types)
    path = GraphPath(
        hop_count=len(types),
        edge_types=types,
        unit_ids=tuple(unit_ids),
        match_count=sum(edge_type in wanted for edge_type in types),
    )
    return GraphHit(entry=to_entry(entry), path=path, superseded_by=superseded_by)


def _topic_hits(text: str, rows: list[list[Any]]) -> list[TopicHit]:
    """The hits with their scores; by words over the statistics of these hits alone (see ``ranking.lexical``)."""
    found = [position for position, row in enumerate(rows) if row[0] is not None]
    scores = dict(zip(found, bm25(text, [rows[position][0] for position in found]), strict=True))
    return [
        TopicHit(
            entry=to_entry(entry),
            full_text_score=scores.get(position),
            vector_score=vector_score,
            superseded_by=superseded_by,
        )
        for position, (_, vector_score, superseded_by, entry) in enumerate(rows)
    ]


def _best_of_each(hits: list[TopicHit], limit: int) -> tuple[TopicHit, ...]:
    """The ``limit`` best hits by words and as many by vector, by unit_id."""
    by_text = sorted(
        (hit for hit in hits if hit.full_text_score is not None),
        key=lambda hit: (-(hit.full_text_score or 0.0), hit.entry.unit_id),
    )
    by_vector = sorted(
        (hit for hit in hits if hit.vector_score is not None),
        key=lambda hit: (-(hit.vector_score or 0.0), hit.entry.unit_id),
    )
    best = {hit.entry.unit_id: hit for hit in (*by_text[:limit], *by_vector[:limit])}
    return tuple(best[unit_id] for unit_id in sorted(best))
