"""A retrieval over fakes: what a real stack cannot be made to do on demand."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest

from adapters.plain_text import PlainTextAdapter
from graphsvc.domain.candidates import CatalogEntry, Outcome
from graphsvc.domain.errors import ErrorReason, Unavailable
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import (
    Read,
    ReadOptions,
    RecentQuery,
    RetrievalRecord,
    SessionHistory,
    TopicQuery,
    TopicResult,
    Vector,
    Written,
)
from graphsvc.ranking.selection import Thresholds
from graphsvc.ranking.tokens import TiktokenCounter
from graphsvc.services.drafts import BudgetDraft, RetrievalQuery
from graphsvc.services.retrievals import RetrievalSettings, RetrievalUseCases
from graphsvc.services.strategies import Limits


class Graph:
    def __init__(self) -> None:
        self.queries: list[TopicQuery] = []

    async def search(self, _principal: Principal, query: TopicQuery, _options: ReadOptions) -> Read[TopicResult]:
        self.queries.append(query)
        return Read(TopicResult((), usable_terms=True, partial=False, blocked_count=0, visible_scopes=1))

    async def list_recent(
        self, _principal: Principal, _query: RecentQuery, _options: ReadOptions
    ) -> Read[tuple[CatalogEntry, ...]]:
        return Read(())


class Feedback:
    async def read_session(self, *_: object) -> Read[SessionHistory]:
        return Read(SessionHistory())

    async def record_retrieval(self, _principal: Principal, _record: RetrievalRecord, _ms: int) -> Written[None]:
        return Written(None, ())


class Clock:
    def now(self) -> datetime:
        return datetime(2026, 1, 1, tzinfo=UTC)


class SlowEmbedder:
    dimensions = 256

    async def embed(self, _texts: Sequence[str]) -> list[Vector | None]:
        await asyncio.sleep(60)
        return [None]


class AbsentEmbedder:
    dimensions = 256

    async def embed(self, _texts: Sequence[str]) -> list[Vector | None]:
        raise Unavailable(ErrorReason.EMBEDDER_UNAVAILABLE, "away", retry_delay_ms=1000)


@pytest.mark.parametrize("embedder", [SlowEmbedder(), AbsentEmbedder()])
async def test_without_the_embedder_words_alone_search_and_the_answer_says_so(embedder, counter: TiktokenCounter):
    graph = Graph()
    use_cases = RetrievalUseCases(
        graph=graph,
        feedback=Feedback(),
        tiers=None,
        embedder=embedder,
        counter=counter,
        adapter=PlainTextAdapter(),
        clock=Clock(),
        settings=RetrievalSettings(Thresholds(), Limits(10, 10, 100), 0.4, 1, query_timeout_ms=20),
    )
    query = RetrievalQuery("login", BudgetDraft(retrieval_budget=500))
    answer = (await use_cases.retrieve(Principal("t", "a", "s", frozenset()), query, ReadOptions())).result
    assert answer.outcome is Outcome.NOTHING_MATCHED
    assert graph.queries[0].embedding is None
    assert any("embedder did not answer" in notice for notice in answer.notices)
