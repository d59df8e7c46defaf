"""Selection-budgeted retrieval: identify, price, value, select, render, record.

Source: seed selection-budgeted-retrieval; product.md, What must be true of every answer.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from graphsvc.domain.budget import Budget, threshold_factor
from graphsvc.domain.candidates import NO_TERMS, Outcome, RankedCandidate
from graphsvc.domain.content import check_name, check_vector
from graphsvc.domain.errors import ErrorReason, InvalidArgument, Unavailable
from graphsvc.domain.fingerprint import query_fingerprint
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnit
from graphsvc.ports import (
    Block,
    Clock,
    ContentKey,
    ContextGraph,
    Embedder,
    FeedbackStore,
    ReadOptions,
    Rendering,
    RetrievalRecord,
    SessionHistory,
    TierPromotions,
    TierStore,
    TokenCounter,
    Vector,
    VendorAdapter,
    Written,
)
from graphsvc.ranking.calibration import predictor_of
from graphsvc.ranking.selection import RankingContext, Selection, Thresholds, select
from graphsvc.ranking.value import PRIOR
from graphsvc.services.drafts import ExplainedRetrieval, RetrievalAnswer, RetrievalQuery
from graphsvc.services.retrieval_log import (
    candidates_from_json,
    candidates_to_json,
    deferred_ids,
    feature_names,
    logged_selections,
    newly_lowered,
)
from graphsvc.services.strategies import Identified, Limits, identify

MAX_QUERY_BYTES = 32 * 2**10
MAX_ANCHORS = 32
MAX_HOPS = 4


@dataclass(frozen=True, slots=True)
class RetrievalSettings:
    """What of the settings a retrieval needs."""

    thresholds: Thresholds
    limits: Limits
    reasoning_reserve_ratio: float
    concurrent_retrievals: int
    query_timeout_ms: int


class RetrievalUseCases:
    """Retrieve and explain."""

    def __init__(
        self,
        *,
        graph: ContextGraph,
        feedback: FeedbackStore,
        tiers: TierStore,
        embedder: Embedder,
        counter: TokenCounter,
        adapter: VendorAdapter,
        clock: Clock,
        settings: RetrievalSettings,
        promotions: TierPromotions | None = None,
        retrieval_ids: Callable[[], str] | None = None,
    ) -> None:
        self._graph = graph
        self._feedback = feedback
        self._tiers = tiers
        self._embedder = embedder
        self._counter = counter
        self._adapter = adapter
        self._clock = clock
        self._settings = settings
        self._promotions = promotions
        self._retrieval_id = retrieval_ids or _random_retrieval_id
        self._slots = asyncio.Semaphore(settings.concurrent_retrievals)

    async def retrieve(
        self, principal: Principal, query: RetrievalQuery, options: ReadOptions
    ) -> Written[RetrievalAnswer]:
        """The units worth their tokens within the budget, rendered, with what became of every candidate.

        An empty answer is no error: the outcome says why. Every call is recorded as a (:Retrieval) of its own.

        Raises:
            InvalidArgument: malformed.
            Unavailable: a store does not answer.
            DeadlineExceeded: no answer within ``options.timeout_ms`` a statement.
        """
        async with self._slots:
            return await self._retrieve(principal, query, options)

    async def _retrieve(
        self, principal: Principal, query: RetrievalQuery, options: ReadOptions
    ) -> Written[RetrievalAnswer]:
        started = time.perf_counter()
        now = self._clock.now()
        _check_query(query)
        encoding = self._counter.encoding_for(principal.model)
        budget = await self._budget(query, encoding)
        fingerprint = query_fingerprint(query.text)
        embedding: Vector | None = None
        if budget.retrieval_budget < self._settings.thresholds.min_retrieval_budget:
            identified = _NOT_SEARCHED
        else:
            embedding = await self._query_embedding(query)
            identified = await identify(
                self._graph,
                self._feedback,
                principal,
                query,
                embedding=embedding,
                fingerprint=fingerprint,
                limits=self._settings.limits,
                options=replace(options, timeout_ms=min(options.timeout_ms, self._settings.query_timeout_ms)),
                promotions=self._promotions,
            )
        selection = self._select(principal, query, identified, budget, encoding, now)
        deferred = deferred_ids(selection.ranked)
        units, rendering = await self._render(selection, principal, encoding)
        retrieval_id = self._retrieval_id()
        duration_ms = (time.perf_counter() - started) * 1000
        record = RetrievalRecord(
            retrieval_id=retrieval_id,
            query_text=query.text,
            fingerprint=fingerprint,
            embedding=embedding,
            task_id=query.task_id,
            task_step=query.task_step,
            strategy=identified.strategy,
            outcome=selection.outcome,
            ledger=selection.ledger,
            partial=identified.partial,
            created_time=now,
            duration_ms=duration_ms,
            payload_sha256=hashlib.sha256(rendering.text.encode()).hexdigest(),
            candidates_json=candidates_to_json(selection.ranked),
            selections=logged_selections(selection.ranked),
            deferred_ids=deferred,
            lowered_ids=newly_lowered(deferred, query.task_step, identified.history),
            predictor_version=identified.history.predictor.version if identified.history.predictor else 0,
            feature_names=feature_names(selection.ranked),
        )
        written = await self._feedback.record_retrieval(principal, record, options.timeout_ms)
        answer = RetrievalAnswer(
            retrieval_id=retrieval_id,
            outcome=selection.outcome,
            outcome_detail=selection.detail,
            payload=rendering.text,
            units=units,
            candidates=selection.ranked,
            ledger=selection.ledger,
            strategy=identified.strategy,
            anchor_ids=identified.anchor_ids,
            partial=identified.partial,
            encoding=encoding,
            query_fingerprint=fingerprint,
            duration_ms=(time.perf_counter() - started) * 1000,
            notices=(*identified.notices, *_handle_notices(identified)),
        )
        return Written(answer, written.bookmarks)

    async def explain(self, principal: Principal, retrieval_id: str, options: ReadOptions) -> ExplainedRetrieval:
        """What a retrieval of the principal's own session decided, read back from the graph.

        Raises:
            NotFound: RETRIEVAL_NOT_FOUND, absent or another principal's.
        """
        record = (await self._feedback.get_retrieval(principal, retrieval_id, options)).result
        return ExplainedRetrieval(
            retrieval_id=record.retrieval_id,
            query_text=record.query_text,
            query_fingerprint=record.fingerprint,
            task_id=record.task_id,
            task_step=record.task_step,
            created_time=record.created_time,
            strategy=record.strategy,
            outcome=record.outcome,
            ledger=record.ledger,
            partial=record.partial,
            candidates=candidates_from_json(record.candidates_json),
            duration_ms=record.duration_ms,
        )

    async def _budget(self, query: RetrievalQuery, encoding: str) -> Budget:
        draft = query.budget
        if draft.retrieval_budget is not None:
            return Budget.of_retrieval(draft.retrieval_budget)
        if draft.total_step_budget is None:
            raise InvalidArgument(
                ErrorReason.FIELD_REQUIRED,
                "budget needs a total_step_budget or a retrieval_budget, in tokens",
                field="budget",
            )
        ratio = draft.reasoning_reserve_ratio
        # In a thread: a megabyte takes long enough to hold up every other call.
        counted = await asyncio.to_thread(self._count_all, draft.harness_texts, encoding) if draft.harness_texts else 0
        return Budget.of_step(
            draft.total_step_budget,
            draft.harness_overhead + counted,
            self._settings.reasoning_reserve_ratio if ratio is None else ratio,
            threshold_factor(
                draft.total_step_budget, draft.session_tokens_remaining, draft.expected_steps, query.task_step
            )
            if draft.expected_steps
            else 1.0,
        )

    def _count_all(self, texts: Sequence[str], encoding: str) -> int:
        return sum(self._counter.count(text, encoding) for text in texts)

    async def _query_embedding(self, query: RetrievalQuery) -> Vector | None:
        """The vector; None where the query has none or the embedder is late or away: words alone then search."""
        if query.embedding is not None:
            return check_vector(query.embedding, self._embedder.dimensions, "query_embedding")
        if not query.text or not self._embedder.dimensions:
            return None
        with contextlib.suppress(TimeoutError, Unavailable):
            async with asyncio.timeout(self._settings.query_timeout_ms / 1000):
                return (await self._embedder.embed([query.text]))[0]
        return None

    def _select(
        self,
        principal: Principal,
        query: RetrievalQuery,
        identified: Identified,
        budget: Budget,
        encoding: str,
        now: datetime,
    ) -> Selection:
        costs = {
            candidate.entry.unit_id: candidate.entry.token_counts[encoding]
            + self._adapter.block_overhead(candidate.entry.unit_id, encoding, self._counter)
            for candidate in identified.candidates
        }
        fitted = identified.history.predictor
        return select(
            identified.candidates,
            costs,
            budget,
            predictor=predictor_of(fitted) if fitted else PRIOR,
            thresholds=self._settings.thresholds.times(budget.threshold_factor),
            context=RankingContext(
                now=now,
                model=principal.model,
                query=query.text,
                terms=identified.terms,
                reference_rates=fitted.reference_rates if fitted else {},
            ),
            empty_outcome=identified.empty_outcome,
            envelope_cost=self._adapter.envelope_overhead(encoding, self._counter),
            withheld=identified.withheld,
        )

    async def _render(
        self, selection: Selection, principal: Principal, encoding: str
    ) -> tuple[tuple[ContextUnit, ...], Rendering]:
        """The selected units with content, most valuable first, and the payload, counted as rendered."""
        chosen = selection.payload_order
        keys = [
            ContentKey(principal.tenant_id, r.candidate.entry.unit_id, r.candidate.entry.content_sha256) for r in chosen
        ]
        contents = await self._tiers.get(keys) if keys else {}
        units = tuple(
            _delivered(principal, ranked, contents[key].decode()) for ranked, key in zip(chosen, keys, strict=True)
        )
        blocks = [
            Block(unit.unit_id, unit.kind, unit.content, ranked.valuation.value)
            for unit, ranked in zip(units, chosen, strict=True)
        ]
        return units, self._adapter.render(blocks, encoding, self._counter)


def _delivered(principal: Principal, ranked: RankedCandidate, content: str) -> ContextUnit:
    entry = ranked.candidate.entry
    return ContextUnit(
        unit_id=entry.unit_id,
        unit_key=entry.unit_key,
        tenant_id=principal.tenant_id,
        agent_id=entry.agent_id,
        session_id=entry.session_id,
        kind=entry.kind,
        content=content,
        timestamp=entry.timestamp,
        created_time=entry.created_time,
        task_step=entry.task_step,
        epistemic_status=entry.epistemic_status,
        relevance_score=entry.relevance_score,
        tier=entry.tier,
        path=entry.path,
        model=entry.model,
        pinned=entry.pinned,
        content_sha256=entry.content_sha256,
        size_bytes=entry.size_bytes,
        token_counts=entry.token_counts,
    )


def _check_query(query: RetrievalQuery) -> None:
    if not (query.text.strip() or query.task_id or query.anchor_unit_ids):
        raise InvalidArgument(
            ErrorReason.FIELD_REQUIRED, "say what is wanted: a query, a task_id or anchor_unit_ids", field="query"
        )
    if len(query.text.encode(errors="replace")) > MAX_QUERY_BYTES:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"query is longer than {MAX_QUERY_BYTES} bytes: ask for the topic, not with the whole document",
            field="query",
            limit=MAX_QUERY_BYTES,
        )
    if query.task_id:
        check_name(query.task_id, "task_id")
    if len(query.anchor_unit_ids) > MAX_ANCHORS:
        raise InvalidArgument(
            ErrorReason.FIELD_TOO_LARGE,
            f"at most {MAX_ANCHORS} anchor_unit_ids go with a query",
            field="anchor_unit_ids",
            limit=MAX_ANCHORS,
        )
    if not 1 <= query.max_hops <= MAX_HOPS:
        raise InvalidArgument(ErrorReason.FIELD_INVALID, f"max_hops must be 1 to {MAX_HOPS}", field="max_hops")


def _handle_notices(identified: Identified) -> Sequence[str]:
    if not identified.missing_handles:
        return ()
    return (f"not_permitted (absent or not visible): {', '.join(identified.missing_handles)}",)


def _random_retrieval_id() -> str:
    return "r" + base64.b32encode(secrets.token_bytes(10)).decode().lower()[:15]


_NOT_SEARCHED = Identified(
    candidates=(),
    terms=NO_TERMS,
    history=SessionHistory(),
    withheld=frozenset(),
    strategy="none",
    anchor_ids=(),
    missing_handles=(),
    partial=False,
    empty_outcome=Outcome.NOTHING_MATCHED,
    notices=(),
)
