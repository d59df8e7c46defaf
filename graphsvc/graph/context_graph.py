"""Distance and topic search in Neo4j: the port ContextGraph."""

from __future__ import annotations

from typing import Any

import numpy as np

from graphsvc.domain.candidates import (
    CatalogEntry,
    GraphHit,
    GraphPath,
    Neighbourhood,
    SeedLink,
    TermStatistics,
    TopicHit,
)
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind, Direction, EdgeType
from graphsvc.graph.catalog import Catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.query_text import text_clause
from graphsvc.graph.rows import to_caller, to_edge_type, to_entry
from graphsvc.graph.scope_terms import CURRENT_TERM, kinds_clause, own_clause, tenant_term
from graphsvc.ports import (
    Clock,
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
)
from graphsvc.ranking.lexical import bm25, term_coverage, term_statistics

SCOPE_LIMIT = 100
"""Scopes of a full-text search: each is up to 9 of Lucene's 1,024 clauses, words take 128."""
GROUP_LIMIT = 12
"""Vector searches of one query: each takes milliseconds."""
BLOCKED_ALLOWANCE = 50
"""Rows asked of an index beyond the limit, so that rejected units do not take the places of others."""
AS_OF_FACTOR = 4
"""Rows asked of an index a row wanted when a time is given: indexes hold every version, not its time."""

SAMPLE_SIZE = 50
"""Vectors of the best hits whose middle is taken: a few hundred kilobytes would be the price of all."""
LEAD_LENGTH = 96
"""Characters: what a unit is about stands at its start."""
COMPANION_ROUNDS = 3
"""How often what was found is looked up in turn: a chunk, its header, the call whose result that is."""
TURN_LIMIT = 12
"""Units within two steps of a seed, its own included: where there are more, steps are no order of turns."""

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
        self._describe = catalog["describe_candidates"]
        self._list_neighbours = catalog["list_neighbours"]
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
                "sample_size": 0 if query.embedding is None else SAMPLE_SIZE,
            },
        }
        rows, seen = await self._driver.read(
            self._search, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        row = rows[0]
        found, statistics = _topic_hits(query.text, row["hits"])
        hits = _best_of_each(found, query.limit)
        result = TopicResult(
            hits=hits,
            usable_terms=text is not None,
            partial=row["partial"],
            blocked_count=row["blocked_count"],
            visible_scopes=row["visible_scopes"],
            statistics=statistics,
            sample=tuple(np.asarray(vector, dtype=np.float32) for vector in row["sample"]),
        )
        return Read(result, seen)

    async def neighbours(self, principal: Principal, query: NeighbourQuery, options: ReadOptions) -> Read[Neighbours]:
        """As :meth:`graphsvc.ports.ContextGraph.neighbours`."""
        params: dict[str, Any] = {
            **_scope(principal),
            "now": self._clock.now(),
            "neighbours": {
                "seed_ids": sorted(set(query.seed_ids)),
                "candidate_ids": sorted(set(query.candidate_ids)),
                "kinds": sorted(query.kinds or _ALL_KINDS),
                "all_kinds": sorted(_ALL_KINDS),
                "fingerprint": query.fingerprint,
                "as_of": query.as_of,
                "edge_limit": query.edge_limit,
                "turn_limit": TURN_LIMIT,
            },
        }
        rows, seen = await self._driver.read(
            self._list_neighbours, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        row = rows[0]
        result = Neighbours(
            units=_found_units(row["hits"]),
            neighbourhoods=_neighbourhoods(row["links"], row["turns"], dict(row["in_degrees"])),
            blocked_count=row["blocked_count"],
        )
        return Read(result, seen)

    async def describe(self, principal: Principal, query: DescriptionQuery, options: ReadOptions) -> Read[Descriptions]:
        """As :meth:`graphsvc.ports.ContextGraph.describe`.

        One statement, and another one for companions that were found: none of them goes in without its own.
        """
        by_id: dict[str, Description] = {}
        units: dict[str, FoundUnit] = {}
        companion_ids: dict[str, list[str]] = {}
        blocked_ids: set[str] = set()
        seen: tuple[str, ...] = ()
        candidate_ids = sorted(set(query.candidate_ids))
        for _ in range(COMPANION_ROUNDS):
            params: dict[str, Any] = {
                **_scope(principal),
                "now": self._clock.now(),
                "description": {
                    "candidate_ids": candidate_ids,
                    "fingerprint": query.fingerprint,
                    "as_of": query.as_of,
                    "embedding": None if query.embedding is None else query.embedding.tolist(),
                    "lead_length": LEAD_LENGTH,
                },
            }
            rows, seen = await self._driver.read(
                self._describe, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
            )
            row = rows[0]
            found = [unit for unit in _found_units(row["hits"]) if unit.entry.unit_id not in by_id]
            by_id |= _descriptions(row["candidates"], query.statistics)
            units |= {unit.entry.unit_id: unit for unit in found}
            for unit_id, companion_id, blocked in row["companions"]:
                companion_ids.setdefault(unit_id, []).append(companion_id)
                if blocked:
                    blocked_ids.add(companion_id)
            candidate_ids = [unit.entry.unit_id for unit in found]
            if not candidate_ids:
                break
        result = Descriptions(
            by_id=by_id,
            units=tuple(units[unit_id] for unit_id in sorted(units)),
            companion_ids={unit_id: tuple(sorted(ids)) for unit_id, ids in companion_ids.items()},
            blocked_ids=frozenset(blocked_ids),
        )
        return Read(result, seen)

    async def list_recent(
        self, principal: Principal, query: RecentQuery, options: ReadOptions
    ) -> Read[tuple[CatalogEntry, ...]]:
        """As :meth:`graphsvc.ports.ContextGraph.list_recent`."""
        params: dict[str, Any] = {
            **_scope(principal),
            "now": self._clock.now(),
            "recent": {"limit": query.limit, "fingerprint": query.fingerprint, "as_of": query.as_of},
        }
        rows, seen = await self._driver.read(
            self._list_recent, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
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


def _found_units(rows: list[list[Any]]) -> tuple[FoundUnit, ...]:
    units = [FoundUnit(to_entry(entry), superseded_by) for superseded_by, entry in rows]
    return tuple(sorted(units, key=lambda unit: unit.entry.unit_id))


def _descriptions(rows: list[list[Any]], statistics: TermStatistics) -> dict[str, Description]:
    documents = [terms for _, terms, _, _ in rows]
    scores, coverages = bm25(statistics, documents), term_coverage(statistics, documents)
    return {
        unit_id: Description(score or None, cosine, coverage, lead)
        for (unit_id, _, cosine, lead), score, coverage in zip(rows, scores, coverages, strict=True)
    }


def _neighbourhoods(
    links: list[list[Any]], turns: list[list[Any]], in_degrees: dict[str, int]
) -> dict[str, Neighbourhood]:
    linked: dict[str, list[SeedLink]] = {}
    for seed_id, unit_id, edge_type, outgoing, weight in links:
        way = Direction.OUTGOING if outgoing else Direction.INCOMING
        link = SeedLink(seed_id, to_edge_type(edge_type), way, weight)
        linked.setdefault(unit_id, []).append(link)
    near: dict[str, list[tuple[str, int]]] = {}
    for seed_id, unit_id, steps in turns:
        near.setdefault(unit_id, []).append((seed_id, steps))
    return {
        unit_id: Neighbourhood(
            links=tuple(
                sorted(linked.get(unit_id, ()), key=lambda link: (link.seed_id, link.edge_type, link.direction))
            ),
            turns=tuple(sorted(near.get(unit_id, ()))),
            in_degree=in_degrees.get(unit_id, 0),
        )
        for unit_id in linked.keys() | near.keys()
    }


def _topic_hits(text: str, rows: list[list[Any]]) -> tuple[list[TopicHit], TermStatistics]:
    """The hits with their scores; by words over the statistics of these hits alone (see ``ranking.lexical``)."""
    documents = [row[0] for row in rows if row[0] is not None]
    statistics = term_statistics(text, documents)
    hits: list[TopicHit] = []
    for terms, vector_score, superseded_by, entry in rows:
        score, coverage = _by_words(terms, statistics)
        hits.append(TopicHit(to_entry(entry), score, vector_score, superseded_by, coverage))
    return hits, statistics


def _by_words(terms: str | None, statistics: TermStatistics) -> tuple[float | None, float]:
    """Score and coverage of a unit; None and 0 for one that no word finds."""
    if terms is None:
        return None, 0.0
    return bm25(statistics, [terms])[0], term_coverage(statistics, [terms])[0]


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
