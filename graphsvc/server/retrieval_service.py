# ruff: noqa: N802 - the methods have the names of the RPCs
"""RetrievalService: messages in, use cases, messages out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from graphsvc import telemetry
from graphsvc.server import convert
from graphsvc.server.requests import RequestReader
from graphsvc.v1 import retrieval_service_pb2, retrieval_service_pb2_grpc

if TYPE_CHECKING:
    from graphsvc.services.feedback import FeedbackUseCases
    from graphsvc.services.retrievals import RetrievalUseCases


class RetrievalService(retrieval_service_pb2_grpc.RetrievalServiceServicer):
    """Retrieval under a hard token budget, its explanation, and what became of what was delivered."""

    def __init__(self, retrievals: RetrievalUseCases, feedback: FeedbackUseCases, reader: RequestReader) -> None:
        self._retrievals = retrievals
        self._feedback = feedback
        self._reader = reader

    async def Retrieve(
        self, request: retrieval_service_pb2.RetrieveRequest, context: Any
    ) -> retrieval_service_pb2.RetrieveResponse:
        """What a retrieval decided, and its payload."""
        model = convert.optional_name(request.model, "model")
        principal = self._reader.principal(request.session_id, model)
        query = convert.retrieval_query(request)
        described = convert.described_candidates(request)
        written = await self._retrievals.retrieve(principal, query, self._reader.read_options(request.consistency))
        answer = written.result
        telemetry.record_retrieval(
            strategy=answer.strategy,
            outcome=answer.outcome_detail,
            spent=answer.ledger.tokens_spent,
            deferred=answer.ledger.candidates_deferred,
            remaining=answer.ledger.budget_remaining,
        )
        response = convert.retrieval_message(answer, described=described)
        response.revision.CopyFrom(self._reader.revision(written))
        return response

    async def ExplainRetrieval(
        self, request: retrieval_service_pb2.ExplainRetrievalRequest, context: Any
    ) -> retrieval_service_pb2.ExplainRetrievalResponse:
        """What a retrieval decided, read back."""
        principal = self._reader.principal(request.session_id)
        retrieval_id = convert.required_name(request.retrieval_id, "retrieval_id")
        options = self._reader.read_options(request.consistency)
        return convert.explained_message(await self._retrievals.explain(principal, retrieval_id, options))

    async def ReportOutcome(
        self, request: retrieval_service_pb2.ReportOutcomeRequest, context: Any
    ) -> retrieval_service_pb2.ReportOutcomeResponse:
        """Which delivered units an output referenced, recorded."""
        principal = self._reader.principal(request.session_id)
        retrieval_id = convert.required_name(request.retrieval_id, "retrieval_id")
        report = convert.outcome_report(request)
        write = self._reader.write(request, request.request_id)
        written = await self._feedback.report_outcome(principal, retrieval_id, report, write)
        response = convert.outcome_message(written)
        response.revision.CopyFrom(self._reader.revision(written))
        return response
