"""Units and typed edges: checked, priced, embedded, made durable, then catalogued.

The order of a write is content first (synced in LMDB), catalog entry second, reply third: a crash in between leaves
content without a catalog entry, which nobody can see and the reconciler removes.
Source: product.md, Content; gates N1 to N4.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from graphsvc.domain.content import check_content, check_name, check_path, check_vector
from graphsvc.domain.errors import ErrorReason, InvalidArgument
from graphsvc.domain.phrases import key_phrases
from graphsvc.domain.rendering import render_body
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.terms import search_terms
from graphsvc.domain.units import (
    MAX_BATCH_UNITS,
    MAX_NAME_BYTES,
    MAX_PATH_BYTES,
    MAX_PROVENANCE,
    MAX_RELATIONS,
    MAX_VENDOR_STATE_BYTES,
    ContextUnit,
    ContextUnitKind,
    Relation,
    excerpt_of,
    unit_id_for,
)
from graphsvc.ports import (
    Clock,
    ContentKey,
    Edge,
    Embedder,
    NewUnit,
    PutResult,
    ReadOptions,
    StoredUnit,
    TierStore,
    TokenCounter,
    UnitFilter,
    UnitStore,
    Vector,
    WriteRequest,
    WriteStatus,
    Written,
)
from graphsvc.ranking.lexical import term_frequencies
from graphsvc.services.drafts import EdgeDraft, RelationDraft, UnitDraft

MAX_CLOCK_AHEAD = timedelta(minutes=5)
"""A unit's timestamp may be this far in the future: writers' clocks differ."""

INLINE_BATCH = 4
"""Batches up to this many units are priced on the event loop; larger ones in a thread, so that they hold nobody up."""


class ContextUseCases:
    """Put, get, list, delete, link, unlink."""

    def __init__(
        self, units: UnitStore, tiers: TierStore, embedder: Embedder, counter: TokenCounter, clock: Clock
    ) -> None:
        self._units = units
        self._tiers = tiers
        self._embedder = embedder
        self._counter = counter
        self._clock = clock

    async def put(
        self, principal: Principal, drafts: Sequence[UnitDraft], request: WriteRequest
    ) -> Written[tuple[PutResult, ...]]:
        """What became of each unit, in order; all are stored, durably, or none.

        Args:
            principal: the writer; its session is the units'.
            drafts: 1 to 1000 units with distinct keys.
            request: identity of the write.

        Raises:
            InvalidArgument: a unit breaks a rule of the format; nothing was written.
            NotFound, AlreadyExists, FailedPrecondition: as UnitStore.put_units.
            ResourceExhausted: STORAGE_FULL.
        """
        _check_batch(len(drafts), "units")
        now = self._clock.now()
        vectors = await self._vectors(drafts)
        if len(drafts) <= INLINE_BATCH:
            units = self._prepare(principal, drafts, vectors, now)
        else:
            units = await asyncio.to_thread(self._prepare, principal, drafts, vectors, now)
        contents = {
            ContentKey(principal.tenant_id, new.unit.unit_id, new.unit.content_sha256): new.unit.content.encode()
            for new in units
        }
        await self._tiers.put(contents)
        return await self._units.put_units(principal, units, request)

    async def get(
        self, principal: Principal, unit_ids: Sequence[str], *, with_content: bool, options: ReadOptions
    ) -> tuple[list[StoredUnit], list[str]]:
        """The visible units in the given order, and the ids that are absent or not visible."""
        _check_batch(len(unit_ids), "unit_ids")
        read = await self._units.get_units(principal, unit_ids, options)
        found = list(read.result)
        seen = {stored.unit.unit_id for stored in found}
        if with_content:
            found = await self._with_content(found)
        return found, [unit_id for unit_id in dict.fromkeys(unit_ids) if unit_id not in seen]

    async def list(
        self,
        principal: Principal,
        where: UnitFilter,
        after: tuple[datetime, str] | None,
        limit: int,
        *,
        with_content: bool,
        options: ReadOptions,
    ) -> tuple[StoredUnit, ...]:
        """Visible units by created_time, then unit_id, after the position; at most ``limit``."""
        read = await self._units.list_units(principal, where, after, limit, options)
        return tuple(await self._with_content(read.result)) if with_content else read.result

    async def delete(
        self, principal: Principal, unit_ids: Sequence[str], request: WriteRequest
    ) -> Written[tuple[str, ...]]:
        """Ids of the own units removed; their content is gone from every tier, cold through the outbox.

        The catalog entry goes first: a crash in between leaves content nobody can see, for the reconciler.
        """
        _check_batch(len(unit_ids), "unit_ids")
        written = await self._units.delete_units(principal, unit_ids, request)
        # The same unit may have been written again meanwhile: then its content stays.
        again = await self._units.existing_content(principal.tenant_id, written.result)
        await self._tiers.delete([ContentKey(principal.tenant_id, *key) for key in written.result if key not in again])
        return Written(tuple(unit_id for unit_id, _ in written.result), written.bookmarks, written.replayed)

    async def link(
        self, principal: Principal, edges: Sequence[EdgeDraft], request: WriteRequest
    ) -> Written[tuple[WriteStatus, ...]]:
        """Whether each edge is new, in order; all are there afterwards, or none was added."""
        _check_batch(len(edges), "edges")
        return await self._units.link(principal, _edges(principal, edges), request)

    async def unlink(self, principal: Principal, edges: Sequence[EdgeDraft], request: WriteRequest) -> Written[int]:
        """How many of the edges there were; none is there afterwards."""
        _check_batch(len(edges), "edges")
        return await self._units.unlink(principal, _edges(principal, edges), request)

    async def _with_content(self, stored: Sequence[StoredUnit]) -> list[StoredUnit]:
        keys = [ContentKey(s.unit.tenant_id, s.unit.unit_id, s.unit.content_sha256) for s in stored]
        contents = await self._tiers.get(keys)
        return [
            replace(s, unit=replace(s.unit, content=contents[key].decode()))
            for s, key in zip(stored, keys, strict=True)
        ]

    async def _vectors(self, drafts: Sequence[UnitDraft]) -> list[Vector | None]:
        dimensions = self._embedder.dimensions
        vectors: list[Vector | None] = [None] * len(drafts)
        own: list[int] = []
        for index, draft in enumerate(drafts):
            if draft.embedding is not None:
                vectors[index] = check_vector(draft.embedding, dimensions, f"units[{index}].embedding")
            else:
                own.append(index)
        if own and dimensions:
            embedded = await self._embedder.embed([drafts[index].content for index in own])
            for index, vector in zip(own, embedded, strict=True):
                vectors[index] = vector
        return vectors

    def _prepare(
        self, principal: Principal, drafts: Sequence[UnitDraft], vectors: Sequence[Vector | None], now: datetime
    ) -> list[NewUnit]:
        check_name(principal.session_id, "session_id")
        keys: set[str] = set()
        prepared: list[NewUnit] = []
        for index, (draft, vector) in enumerate(zip(drafts, vectors, strict=True)):
            where = f"units[{index}]"
            _check_draft(draft, where, now)
            if draft.unit_key in keys:
                raise InvalidArgument(
                    ErrorReason.FIELD_INVALID,
                    f"{where}.unit_key names another unit of this batch too: keys are unique in an agent's session",
                    field=f"{where}.unit_key",
                )
            keys.add(draft.unit_key)
            prepared.append(self._new_unit(principal, draft, vector, now + timedelta(microseconds=index), where))
        return prepared

    def _new_unit(
        self, principal: Principal, draft: UnitDraft, vector: Vector | None, created: datetime, where: str
    ) -> NewUnit:
        data = draft.content.encode()
        excerpt = excerpt_of(draft.content)
        unit_id = unit_id_for(principal.tenant_id, principal.agent_id, principal.session_id, draft.unit_key)
        unit = ContextUnit(
            unit_id=unit_id,
            unit_key=draft.unit_key,
            tenant_id=principal.tenant_id,
            agent_id=principal.agent_id,
            session_id=principal.session_id,
            kind=draft.kind,
            content=draft.content,
            timestamp=draft.timestamp or created,
            created_time=created,
            task_step=draft.task_step,
            task_id=draft.task_id,
            epistemic_status=draft.epistemic_status,
            provenance=draft.provenance,
            relations=_relations(principal, unit_id, draft.relations, where),
            path=draft.path,
            model=draft.model or principal.model,
            pinned=draft.pinned or draft.kind is ContextUnitKind.CONSTRAINT,
            tool_call=draft.tool_call,
            vendor_state=draft.vendor_state,
            content_sha256=hashlib.sha256(data).hexdigest(),
            size_bytes=len(data),
            token_counts=self._counter.counts(render_body(draft.content)),
        )
        return NewUnit(
            unit=unit,
            embedding=vector,
            search_terms=search_terms(excerpt, draft.path),
            key_phrases=key_phrases(draft.content),
            term_frequencies=term_frequencies(excerpt, draft.path),
        )


def _check_batch(count: int, field: str) -> None:
    if not count:
        raise InvalidArgument(ErrorReason.FIELD_REQUIRED, f"{field} must hold at least one entry", field=field)
    if count > MAX_BATCH_UNITS:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"{field} holds {count} entries; send at most {MAX_BATCH_UNITS} in a call",
            field=field,
            limit=MAX_BATCH_UNITS,
        )


def _check_draft(draft: UnitDraft, where: str, now: datetime) -> None:
    check_name(draft.unit_key, f"{where}.unit_key")
    check_content(draft.content, f"{where}.content")
    if draft.timestamp is not None and draft.timestamp > now + MAX_CLOCK_AHEAD:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID,
            f"{where}.timestamp is in the future: it says when the content became true; leave it unset for now",
            field=f"{where}.timestamp",
        )
    if draft.task_step < 0:
        raise InvalidArgument(
            ErrorReason.FIELD_INVALID, f"{where}.task_step must be 0 or more", field=f"{where}.task_step"
        )
    for value, name in ((draft.task_id, "task_id"), (draft.model, "model")):
        if value:
            check_name(value, f"{where}.{name}")
    if draft.path:
        check_path(draft.path, f"{where}.path")
    if len(draft.provenance) > MAX_PROVENANCE:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"{where}.provenance has {len(draft.provenance)} entries; at most {MAX_PROVENANCE} are kept",
            field=f"{where}.provenance",
            limit=MAX_PROVENANCE,
        )
    for index, entry in enumerate(draft.provenance):
        check_name(entry, f"{where}.provenance[{index}]", limit=MAX_PATH_BYTES)
    if len(draft.relations) > MAX_RELATIONS:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"{where}.relations has {len(draft.relations)} entries; at most {MAX_RELATIONS} go with a unit, "
            "more can be added with LinkUnits",
            field=f"{where}.relations",
            limit=MAX_RELATIONS,
        )
    if len(draft.vendor_state) > MAX_VENDOR_STATE_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"{where}.vendor_state is larger than {MAX_VENDOR_STATE_BYTES} bytes",
            field=f"{where}.vendor_state",
            limit=MAX_VENDOR_STATE_BYTES,
        )
    if draft.tool_call is not None:
        if draft.kind is not ContextUnitKind.TOOL_RESULT:
            raise InvalidArgument(
                ErrorReason.FIELD_INVALID,
                f"{where}.tool_call goes with kind tool_result only: it is the call the result answers",
                field=f"{where}.tool_call",
            )
        check_name(draft.tool_call.call_id, f"{where}.tool_call.call_id")
        check_name(draft.tool_call.name, f"{where}.tool_call.name")


def _relations(
    principal: Principal, source_id: str, drafts: Sequence[RelationDraft], where: str
) -> tuple[Relation, ...]:
    """Relations with targets as ids; an edge given twice (target, type, role) counts once, the last weight wins."""
    unique: dict[tuple[str, str, str], Relation] = {}
    for index, draft in enumerate(drafts):
        relation = _relation(principal, source_id, draft, f"{where}.relations[{index}]")
        unique[relation.target_id, relation.edge_type, relation.role] = relation
    return tuple(unique.values())


def _relation(principal: Principal, source_id: str, draft: RelationDraft, field: str) -> Relation:
    if draft.role:
        check_name(draft.role, f"{field}.role")
    if not 0.0 <= draft.weight <= 1.0:  # also refuses NaN
        raise InvalidArgument(ErrorReason.FIELD_INVALID, f"{field}.weight must be 0 to 1", field=f"{field}.weight")
    if draft.target_key:
        check_name(draft.target_key, f"{field}.target_key", limit=MAX_NAME_BYTES)
        target = unit_id_for(principal.tenant_id, principal.agent_id, principal.session_id, draft.target_key)
    elif draft.target_id:
        target = draft.target_id
    else:
        raise InvalidArgument(
            ErrorReason.FIELD_REQUIRED, f"{field} needs a target_id or a target_key", field=f"{field}.target_id"
        )
    if target == source_id:
        raise InvalidArgument(
            ErrorReason.SELF_LOOP,
            f"{field} points to its own unit: an edge joins two units",
            field=f"{field}.target_id",
        )
    return Relation(target_id=target, edge_type=draft.edge_type, role=draft.role, weight=draft.weight)


def _edges(principal: Principal, drafts: Sequence[EdgeDraft]) -> tuple[Edge, ...]:
    return tuple(
        Edge(draft.source_id, _relation(principal, draft.source_id, draft.relation, f"edges[{index}].relation"))
        for index, draft in enumerate(drafts)
    )
