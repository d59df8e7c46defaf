"""The catalog of units in Neo4j: written, linked, read and removed by id.

Source: design.md, Invariants; cypher_perf.md, section 5.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from neo4j import Record
from neo4j.vector import Vector as Neo4jVector

from graphsvc.domain.digests import distinct_relations, unit_digest
from graphsvc.domain.errors import AlreadyExists, ErrorReason, FailedPrecondition, GraphsvcError, NotFound
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnit, EdgeType, Relation, ToolCall, excerpt_of
from graphsvc.graph.catalog import Catalog, Statement
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.requests import request_row, write_parameters
from graphsvc.graph.rows import to_caller, to_edge_type, to_entry
from graphsvc.graph.scope_terms import scope_terms
from graphsvc.ports import (
    Clock,
    Edge,
    NewUnit,
    PutResult,
    Read,
    ReadOptions,
    StoredUnit,
    UnitFilter,
    Vector,
    WriteRequest,
    WriteStatus,
    Written,
)

CAPTION_LENGTH = 60
"""Characters of a caption: what fits a node in Neo4j Browser."""
CONTENT_KEYS_AT_ONCE = 10_000
CONTENT_TIMEOUT_MS = 60_000
T = TypeVar("T")

_FIRST_TIME = datetime(1, 1, 1, tzinfo=UTC)


class GraphUnitStore:
    """UnitStore on Neo4j; each method is one statement in one transaction.

    Args:
        driver: an open connection.
        catalog: all statements.
        clock: says which policies have expired and when edges were made.
    """

    def __init__(self, driver: GraphDriver, catalog: Catalog, clock: Clock) -> None:
        self._driver = driver
        self._clock = clock
        self._put = catalog["put_units"]
        self._get = catalog["get_units"]
        self._list = catalog["list_units"]
        self._delete = catalog["delete_units"]
        self._link = catalog["link"]
        self._unlink = catalog["unlink"]
        self._existing = catalog["existing_content"]

    async def put_units(
        self, principal: Principal, units: Sequence[NewUnit], request: WriteRequest
    ) -> Written[tuple[PutResult, ...]]:
        """What became of each unit, in the given order; catalog entries and edges of all are stored, or of none.

        A unit that is there already, the same, is left as it is: edges removed from it since are not made again. New
        units get created_time = the latest of the given ones, or 1 µs after the newest unit they supersede, each 1 µs
        after the one before it in the batch.

        Raises:
            NotFound: UNIT_NOT_FOUND, a relation's target is absent or not visible; TENANT_NOT_FOUND.
            AlreadyExists: UNIT_DIFFERS, the key names a unit with other content or fields.
            InvalidArgument: REQUEST_ID_REUSED.
            FailedPrecondition: SUPERSESSION_ORDER, a unit supersedes a new one that stands after it in the batch.
        """
        if not units:
            return Written((), ())
        distinct = _distinct_units(units)
        batch = list(distinct.values())
        places = {unit_id: place for place, unit_id in enumerate(distinct)}
        now = max(new.unit.created_time for new in units)
        # By unit_id, so that concurrent writers lock in the same order.
        rows_in = sorted(
            (_unit_row(place, new, places) for place, new in enumerate(batch)), key=lambda row: row["unit_id"]
        )
        params = write_parameters(principal, request, now, units=rows_in)

        def check(_: int, rows: list[Record]) -> None:
            row = request_row(rows, principal, request)
            if row["replayed_json"] is None:
                _check_put(row, batch, places)

        rows, bookmarks = await self._driver.write_many(
            [(self._put, params)], timeout_ms=request.timeout_ms, check=check
        )
        row = rows[0][0]
        replayed = row["replayed_json"] is not None
        existing = set(json.loads(row["replayed_json"]) if replayed else row["existing_positions"])
        results: list[PutResult] = []
        seen: set[str] = set()
        for new in units:
            unit_id = new.unit.unit_id
            created = unit_id not in seen and places[unit_id] not in existing
            results.append(PutResult(unit_id, WriteStatus.CREATED if created else WriteStatus.EXISTING))
            seen.add(unit_id)
        return Written(tuple(results), bookmarks, replayed)

    async def get_units(
        self, principal: Principal, unit_ids: Sequence[str], options: ReadOptions
    ) -> Read[tuple[StoredUnit, ...]]:
        """The visible ones of these units, in the given order; absent and invisible ones are left out."""
        params = self._viewer(principal) | {"wanted": {"unit_ids": sorted(set(unit_ids))}}
        rows, bookmarks = await self._driver.read(
            self._get, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        found = {stored.unit.unit_id: stored for stored in _stored_units(principal, rows)}
        return Read(tuple(found[unit_id] for unit_id in unit_ids if unit_id in found), bookmarks)

    async def list_units(
        self,
        principal: Principal,
        where: UnitFilter,
        after: tuple[datetime, str] | None,
        limit: int,
        options: ReadOptions,
    ) -> Read[tuple[StoredUnit, ...]]:
        """Visible units by created_time, then unit_id, after the given position, at most ``limit``."""
        after_time, after_id = after or (_FIRST_TIME, "")
        params = self._viewer(principal) | {
            "where": {
                "kinds": sorted(where.kinds),
                "owner_agent_id": where.agent_id,
                "owner_session_id": where.session_id,
                "task_id": where.task_id,
                "path_prefix": where.path_prefix,
                "own_only": where.own_only,
                "current_only": where.current_only,
                "after_id": after_id,
            },
            "after_time": after_time,
            "limit": limit,
        }
        rows, bookmarks = await self._driver.read(
            self._list, params, bookmarks=options.bookmarks, timeout_ms=options.timeout_ms
        )
        page = sorted(_stored_units(principal, rows), key=lambda s: (s.unit.created_time, s.unit.unit_id))
        return Read(tuple(page), bookmarks)

    async def delete_units(
        self, principal: Principal, unit_ids: Sequence[str], request: WriteRequest
    ) -> Written[tuple[tuple[str, str], ...]]:
        """(unit_id, content_sha256) of the own units removed with their edges and embeddings, by unit_id.

        A chain of supersession is closed over the gap. Units that are absent, or not the principal's own, are left out.

        Raises:
            NotFound: TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        row, bookmarks = await self._write(
            self._delete, principal, request, {"unit_ids": sorted(set(unit_ids))}, lambda _: None
        )
        replayed = row["replayed_json"] is not None
        removed = json.loads(row["replayed_json"]) if replayed else row["removed"]
        return Written(tuple((unit_id, digest) for unit_id, digest in removed), bookmarks, replayed)

    async def link(
        self, principal: Principal, edges: Sequence[Edge], request: WriteRequest
    ) -> Written[tuple[WriteStatus, ...]]:
        """Whether each edge is new, in the given order; all are added, or none. An edge that is there keeps its weight.

        Raises:
            NotFound: UNIT_NOT_FOUND, a source is not the principal's own or a target is not visible; TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
            FailedPrecondition: SUPERSESSION_ORDER, the target of a supersession is not older than its source.
        """
        distinct = {_edge_name(edge): edge for edge in reversed(edges)}
        ordered = [distinct[name] for name in sorted(distinct)]
        places = {_edge_name(edge): place for place, edge in enumerate(ordered)}

        def check(row: Record) -> None:
            for edge in _at(ordered, row["missing_sources"]):
                raise _not_found(edge.source_id)
            for edge in _at(ordered, row["missing_targets"]):
                raise _not_found(edge.relation.target_id)
            for edge in _at(ordered, row["disordered_positions"]):
                raise _disordered(edge.source_id, edge.relation.target_id)

        rows = [{"position": place, **_edge_row(edge)} for place, edge in enumerate(ordered)]
        row, bookmarks = await self._write(self._link, principal, request, {"edges": rows}, check)
        replayed = row["replayed_json"] is not None
        existing = set(json.loads(row["replayed_json"]) if replayed else row["existing_positions"])
        statuses: list[WriteStatus] = []
        for edge in edges:
            place = places[_edge_name(edge)]
            statuses.append(WriteStatus.EXISTING if place in existing else WriteStatus.CREATED)
            existing.add(place)
        return Written(tuple(statuses), bookmarks, replayed)

    async def unlink(self, principal: Principal, edges: Sequence[Edge], request: WriteRequest) -> Written[int]:
        """How many of these edges there were and are removed; source, target, type and role must match.

        Edges to units that the principal cannot see count as absent.

        Raises:
            NotFound: TENANT_NOT_FOUND.
            InvalidArgument: REQUEST_ID_REUSED.
        """
        distinct = {_edge_name(edge): edge for edge in edges}
        rows = [_edge_row(distinct[name]) for name in sorted(distinct)]
        row, bookmarks = await self._write(self._unlink, principal, request, {"edges": rows}, lambda _: None)
        replayed = row["replayed_json"] is not None
        return Written(int(row["replayed_json"]) if replayed else row["removed_count"], bookmarks, replayed)

    async def existing_content(self, tenant_id: str, keys: Sequence[tuple[str, str]]) -> frozenset[tuple[str, str]]:
        """Which of these (unit_id, content_sha256) have a catalog entry."""
        found: set[tuple[str, str]] = set()
        for start in range(0, len(keys), CONTENT_KEYS_AT_ONCE):
            part = [list(key) for key in keys[start : start + CONTENT_KEYS_AT_ONCE]]
            rows, _ = await self._driver.read(
                self._existing, {"tenant_id": tenant_id, "wanted": {"keys": part}}, timeout_ms=CONTENT_TIMEOUT_MS
            )
            found.update((unit_id, digest) for unit_id, digest in rows[0]["keys"])
        return frozenset(found)

    def _viewer(self, principal: Principal) -> dict[str, Any]:
        return {
            "tenant_id": principal.tenant_id,
            "caller": to_caller(principal),
            "now": self._clock.now(),
        }

    async def _write(
        self,
        statement: Statement,
        principal: Principal,
        request: WriteRequest,
        params: Mapping[str, object],
        check: Callable[[Record], None],
    ) -> tuple[Record, tuple[str, ...]]:
        """The row and bookmarks of an idempotent write; ``check`` sees the row of a first time and may roll it back."""

        def check_rows(_: int, rows: list[Record]) -> None:
            row = request_row(rows, principal, request)
            if row["replayed_json"] is None:
                check(row)

        every = write_parameters(principal, request, self._clock.now(), **params)
        rows, bookmarks = await self._driver.write_many(
            [(statement, every)], timeout_ms=request.timeout_ms, check=check_rows
        )
        return rows[0][0], bookmarks


def _distinct_units(units: Sequence[NewUnit]) -> dict[str, NewUnit]:
    """The units by id in the given order, each once."""
    distinct: dict[str, NewUnit] = {}
    for new in units:
        first = distinct.setdefault(new.unit.unit_id, new)
        if first is not new and unit_digest(first.unit) != unit_digest(new.unit):
            raise _differs(new.unit)
    return distinct


def _unit_row(place: int, new: NewUnit, places: Mapping[str, int]) -> dict[str, Any]:
    """One element of the parameter ``units`` of put_units."""
    unit = new.unit
    relations = distinct_relations(unit.relations)
    targets = sorted({relation.target_id for relation in relations})
    superseded = sorted({r.target_id for r in relations if r.edge_type is EdgeType.SUPERSESSION})
    properties = _properties(new)
    return {
        "position": place,
        "unit_id": unit.unit_id,
        "unit_sha256": properties["unit_sha256"],
        "properties": properties,
        "embeddings": [] if new.embedding is None else [to_neo4j_vector(new.embedding)],
        "outside_ids": [target for target in targets if target not in places],
        "superseded_ids": superseded,
        "edges": [_relation_row(relation) for relation in relations],
    }


def _properties(new: NewUnit) -> dict[str, Any]:
    """The properties of a new (:ContextUnit) node; created_time is set by the statement."""
    unit = new.unit
    excerpt = excerpt_of(unit.content)
    return {
        "tenant_id": unit.tenant_id,
        "unit_id": unit.unit_id,
        "unit_key": unit.unit_key,
        "agent_id": unit.agent_id,
        "session_id": unit.session_id,
        "kind": unit.kind.value,
        "task_id": unit.task_id,
        "task_step": unit.task_step,
        "epistemic_status": unit.epistemic_status.value,
        "timestamp": unit.timestamp,
        "path": unit.path,
        "model": unit.model,
        "pinned": unit.pinned,
        "tier": unit.tier.value,
        "relevance_score": float(unit.relevance_score),
        "content_sha256": unit.content_sha256,
        "unit_sha256": unit_digest(unit),
        "size_bytes": unit.size_bytes,
        "token_count_cl100k_base": unit.token_counts.get("cl100k_base", 0),
        "token_count_o200k_base": unit.token_counts.get("o200k_base", 0),
        "excerpt": excerpt,
        "search_terms": new.search_terms,
        "term_frequencies": new.term_frequencies,
        "scope_terms": scope_terms(unit.tenant_id, unit.agent_id, unit.session_id, unit.kind, current=True),
        "key_phrases": list(new.key_phrases),
        "provenance": list(unit.provenance),
        "tool_call_id": unit.tool_call.call_id if unit.tool_call else None,
        "tool_name": unit.tool_call.name if unit.tool_call else None,
        "tool_arguments_json": unit.tool_call.arguments_json if unit.tool_call else None,
        "vendor_state": unit.vendor_state or None,
        "current": True,
        "caption": caption_of(unit.path or excerpt),
    }


def to_neo4j_vector(vector: Vector) -> Neo4jVector:
    """The vector as one block of float32 bytes: half the time of a list of Python floats; the statement unpacks it."""
    return Neo4jVector(vector.astype(">f4").tobytes(), "f32")


def caption_of(text: str) -> str:
    """The first words of a text, at most :data:`CAPTION_LENGTH` characters, on one line."""
    line = " ".join(text[: 4 * CAPTION_LENGTH].split())
    return line if len(line) <= CAPTION_LENGTH else line[: CAPTION_LENGTH - 1] + "…"


def _relation_row(relation: Relation) -> dict[str, Any]:
    return {
        "target_id": relation.target_id,
        "relationship_type": relation.edge_type.relationship_type,
        "role": relation.role,
        "weight": float(relation.weight),
    }


def _edge_name(edge: Edge) -> tuple[str, str, str, str]:
    """What tells two edges apart, in the order in which their units are locked."""
    return (edge.source_id, edge.relation.target_id, edge.relation.edge_type.value, edge.relation.role)


def _edge_row(edge: Edge) -> dict[str, Any]:
    return {"source_id": edge.source_id, **_relation_row(edge.relation)}


def _check_put(row: Record, batch: Sequence[NewUnit], places: Mapping[str, int]) -> None:
    """Raises what forbids the put, so that everything is rolled back."""
    for new in _at(batch, row["differing_positions"]):
        raise _differs(new.unit)
    for unit_id in sorted(row["missing_ids"]):
        raise _not_found(unit_id)
    existing = set(row["existing_positions"])
    for place, new in enumerate(batch):
        for relation in () if place in existing else new.unit.relations:
            target = places.get(relation.target_id)
            if (
                relation.edge_type is EdgeType.SUPERSESSION
                and target is not None
                and target >= place
                and target not in existing
            ):
                raise _disordered(new.unit.unit_id, relation.target_id)


def _at(values: Sequence[T], places: Iterable[int]) -> list[T]:
    """The values at these places, in order."""
    return [values[place] for place in sorted(places)]


def _differs(unit: ContextUnit) -> GraphsvcError:
    return AlreadyExists(
        ErrorReason.UNIT_DIFFERS,
        "the unit_key names a unit with other content or fields: units never change, so choose another key and "
        "supersede the old unit",
        unit_key=unit.unit_key,
    )


def _not_found(unit_id: str) -> GraphsvcError:
    return NotFound(ErrorReason.UNIT_NOT_FOUND, "the unit is absent or not visible", unit_id=unit_id)


def _disordered(source_id: str, target_id: str) -> GraphsvcError:
    return FailedPrecondition(
        ErrorReason.SUPERSESSION_ORDER,
        "a unit can only supersede one that was stored before it",
        source_id=source_id,
        target_id=target_id,
    )


def _stored_units(principal: Principal, rows: Sequence[Record]) -> list[StoredUnit]:
    return [_stored_unit(principal.tenant_id, *values) for values in rows[0]["units"]]


def _stored_unit(
    tenant_id: str,
    details: Sequence[Any],
    relations: Sequence[Sequence[Any]],
    superseded_by: str | None,
    entry_values: Sequence[Any],
) -> StoredUnit:
    entry = to_entry(entry_values)
    task_id, provenance, tool_call_id, tool_name, tool_arguments_json, vendor_state = details
    unit = ContextUnit(
        unit_id=entry.unit_id,
        unit_key=entry.unit_key,
        tenant_id=tenant_id,
        agent_id=entry.agent_id,
        session_id=entry.session_id,
        kind=entry.kind,
        content="",
        timestamp=entry.timestamp,
        created_time=entry.created_time,
        task_step=entry.task_step,
        task_id=task_id,
        epistemic_status=entry.epistemic_status,
        provenance=tuple(provenance),
        relevance_score=entry.relevance_score,
        tier=entry.tier,
        relations=distinct_relations(
            tuple(Relation(target, to_edge_type(name), role, weight) for target, name, role, weight in relations)
        ),
        path=entry.path,
        model=entry.model,
        pinned=entry.pinned,
        tool_call=None if tool_call_id is None else ToolCall(tool_call_id, tool_name, tool_arguments_json),
        vendor_state=b"" if vendor_state is None else bytes(vendor_state),
        content_sha256=entry.content_sha256,
        size_bytes=entry.size_bytes,
        token_counts=entry.token_counts,
    )
    return StoredUnit(unit, superseded_by or "")
