# ruff: noqa: N802 - the methods have the names of the RPCs
"""ContextService: messages in, use cases, messages out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphsvc.domain.errors import ErrorReason, ResourceExhausted
from graphsvc.ports import StoredUnit
from graphsvc.server import convert
from graphsvc.server.requests import RequestReader
from graphsvc.v1 import context_service_pb2, context_service_pb2_grpc

if TYPE_CHECKING:
    from graphsvc.services.contexts import ContextUseCases

MAX_ANSWER_CONTENT_BYTES = 16 * 2**20
"""Content one answer carries at most."""

_ALWAYS_FITS = MAX_ANSWER_CONTENT_BYTES // convert.units.MAX_CONTENT_BYTES


class ContextService(context_service_pb2_grpc.ContextServiceServicer):
    """Units and typed edges."""

    def __init__(self, contexts: ContextUseCases, reader: RequestReader) -> None:
        self._contexts = contexts
        self._reader = reader

    async def PutUnits(
        self, request: context_service_pb2.PutUnitsRequest, context: Any
    ) -> context_service_pb2.PutUnitsResponse:
        """What became of each unit."""
        write = self._reader.write(request, request.request_id)
        model = convert.optional_name(request.model, "model")
        principal = self._reader.principal(request.session_id, model)
        drafts = convert.unit_drafts(request, principal)
        written = await self._contexts.put(principal, drafts, write)
        results = [
            context_service_pb2.PutUnitResult(
                unit_id=result.unit_id, unit_key=draft.unit_key, status=convert.WRITE_STATUSES.to_proto(result.status)
            )
            for draft, result in zip(drafts, written.result, strict=True)
        ]
        return context_service_pb2.PutUnitsResponse(results=results, revision=self._reader.revision(written))

    async def GetUnits(
        self, request: context_service_pb2.GetUnitsRequest, context: Any
    ) -> context_service_pb2.GetUnitsResponse:
        """The visible ones of the units."""
        principal = self._reader.principal(request.session_id)
        ids = convert.unit_ids(request.unit_ids)
        options = self._reader.read_options(request.consistency)
        if len(ids) > _ALWAYS_FITS and not request.without_content:
            # sizes first: 1000 units may hold 1 GiB
            found, _ = await self._contexts.get(principal, ids, with_content=False, options=options)
            if sum(stored.unit.size_bytes for stored in found) > MAX_ANSWER_CONTENT_BYTES:
                raise ResourceExhausted(
                    ErrorReason.LIMIT_EXCEEDED,
                    f"these units hold more than {MAX_ANSWER_CONTENT_BYTES} bytes: ask for fewer, or without content",
                    limit=MAX_ANSWER_CONTENT_BYTES,
                )
        found, missing = await self._contexts.get(
            principal, ids, with_content=not request.without_content, options=options
        )
        return context_service_pb2.GetUnitsResponse(
            units=[convert.stored_unit_message(stored) for stored in found], missing_ids=missing
        )

    async def ListUnits(
        self, request: context_service_pb2.ListUnitsRequest, context: Any
    ) -> context_service_pb2.ListUnitsResponse:
        """A page of visible units; a page with content also ends before 16 MiB."""
        principal = self._reader.principal(request.session_id)
        where = convert.unit_filter(request)
        size = convert.page_size(request.page_size)
        listing = convert.listing_of(where)
        after = self._reader.tokens.read_page_token(principal, listing, request.page_token)
        options = self._reader.read_options(request.consistency)
        found = await self._contexts.list(principal, where, after, size + 1, with_content=False, options=options)
        page = _fitting(found[:size]) if request.with_content else found[:size]
        token = ""
        if len(page) < len(found):
            last = page[-1].unit
            token = self._reader.tokens.page_token(principal, listing, (last.created_time, last.unit_id))
        units = list(page)
        if request.with_content and units:
            # a unit deleted in between is left out, as if the list had been asked for a moment later
            units, _ = await self._contexts.get(
                principal, [stored.unit.unit_id for stored in page], with_content=True, options=options
            )
        return context_service_pb2.ListUnitsResponse(
            units=[convert.stored_unit_message(stored) for stored in units], next_page_token=token
        )

    async def DeleteUnits(
        self, request: context_service_pb2.DeleteUnitsRequest, context: Any
    ) -> context_service_pb2.DeleteUnitsResponse:
        """Ids of the units removed."""
        write = self._reader.write(request, request.request_id)
        principal = self._reader.principal(request.session_id)
        written = await self._contexts.delete(principal, convert.unit_ids(request.unit_ids), write)
        return context_service_pb2.DeleteUnitsResponse(
            deleted_ids=written.result, revision=self._reader.revision(written)
        )

    async def LinkUnits(
        self, request: context_service_pb2.LinkUnitsRequest, context: Any
    ) -> context_service_pb2.LinkUnitsResponse:
        """Whether each edge is new."""
        write = self._reader.write(request, request.request_id)
        principal = self._reader.principal(request.session_id)
        written = await self._contexts.link(principal, convert.edge_drafts(request.edges, principal), write)
        return context_service_pb2.LinkUnitsResponse(
            statuses=[convert.WRITE_STATUSES.to_proto(one) for one in written.result],
            revision=self._reader.revision(written),
        )

    async def UnlinkUnits(
        self, request: context_service_pb2.UnlinkUnitsRequest, context: Any
    ) -> context_service_pb2.UnlinkUnitsResponse:
        """How many edges were removed."""
        write = self._reader.write(request, request.request_id)
        principal = self._reader.principal(request.session_id)
        written = await self._contexts.unlink(principal, convert.edge_drafts(request.edges, principal), write)
        return context_service_pb2.UnlinkUnitsResponse(
            removed_count=written.result, revision=self._reader.revision(written)
        )


def _fitting(page: tuple[StoredUnit, ...]) -> tuple[StoredUnit, ...]:
    """As much of the page as one answer carries: at least one unit, as none is larger than an answer."""
    total = 0
    for index, stored in enumerate(page):
        total += stored.unit.size_bytes
        if total > MAX_ANSWER_CONTENT_BYTES:
            return page[:index]
    return page
