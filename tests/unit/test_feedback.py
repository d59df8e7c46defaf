"""Feedback over stores in memory: what counts, what is refused, and what a plug-in may do."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, EntryPoints

import pytest
import structlog

from graphsvc import app
from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import AlreadyExists, ErrorReason, InvalidArgument, NotFound, Unavailable
from graphsvc.domain.outcomes import OutcomeReport, ReferenceMethod, UnitOutcome
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import ContentKey, LoggedSelection, RetrievalRecord, WriteRequest, Written
from graphsvc.services.feedback import FeedbackUseCases
from tests.support.memory_stores import MemoryFeedbackStore, MemoryGraph, MemoryUnitStore
from tests.support.memory_tiers import MemoryTiers
from tests.support.store_case import START, TickingClock, id_of, new_unit

ADA = Principal("t1", "ada", "s1", frozenset())
COOKIE = "The session_cookie expires because refresh_token() ignores clock_skew."
BACKUP = "Deploys run after the nightly backup of the archive."
PLAIN = "It is so."
CITATION, PHRASES, ENTAILMENT, CALLER, DECISION = ReferenceMethod


class Plugin:
    """Gives these scores, or fails, or never answers; keeps what it was asked."""

    def __init__(self, *scores: float, fault: Exception | None = None, delay_s: float = 0.0) -> None:
        self.scores, self.fault, self.delay_s = list(scores), fault, delay_s
        self.asked: list[str] = []

    async def score(self, output: str, contents: Sequence[str]) -> list[float]:
        self.asked.extend(contents)
        await asyncio.sleep(self.delay_s)
        if self.fault is not None:
            raise self.fault
        return self.scores


@dataclass
class World:
    """A retrieval "r1" that delivered three units."""

    plugin: Plugin | None = None
    graph: MemoryGraph = field(default_factory=lambda: MemoryGraph(TickingClock(), tenants={"t1"}))
    tiers: MemoryTiers = field(default_factory=lambda: MemoryTiers(TickingClock()))
    contents: dict[str, str] = field(default_factory=lambda: {"a": COOKIE, "b": BACKUP, "c": PLAIN})
    query: str = "why does login fail?"
    count: int = 0

    @property
    def ids(self) -> list[str]:
        return [id_of(ADA, key) for key in self.contents]

    async def open(self) -> FeedbackUseCases:
        units = [new_unit(ADA, key, now=START, content=text) for key, text in self.contents.items()]
        await MemoryUnitStore(self.graph).put_units(ADA, units, WriteRequest("put", "f", 1000))
        keys = [ContentKey("t1", one.unit.unit_id, one.unit.content_sha256) for one in units]
        await self.tiers.put({key: one.unit.content.encode() for key, one in zip(keys, units, strict=True)})
        selections = [
            LoggedSelection(unit_id, Disposition.SELECTED, 0.9 - n / 10, 9, n) for n, unit_id in enumerate(self.ids, 1)
        ]
        record = RetrievalRecord(
            "r1", self.query, "", None, "", 0, "about_topic", Outcome.SELECTED, Ledger(Budget(999), 9, 0, 3, 0), False,
            START, 1.0, "", "[]", tuple(selections),
        )  # fmt: skip
        store = MemoryFeedbackStore(self.graph)
        await store.record_retrieval(ADA, record, 1000)
        return FeedbackUseCases(store, self.tiers, self.plugin)

    async def report(
        self, use_cases: FeedbackUseCases, output: str = "", **fields: object
    ) -> Written[tuple[UnitOutcome, ...]]:
        self.count += 1
        request = WriteRequest(f"q{self.count}", str(self.count), timeout_ms=2000)
        report = OutcomeReport(output, **fields)  # type: ignore[arg-type]
        return await use_cases.report_outcome(ADA, "r1", report, request)

    async def methods(
        self, use_cases: FeedbackUseCases, output: str = "", **fields: object
    ) -> list[tuple[ReferenceMethod, ...]]:
        return [one.methods for one in (await self.report(use_cases, output, **fields)).result]


async def test_every_method_and_its_evidence() -> None:
    world = World(plugin=Plugin(0.71))
    a, b, c = world.ids
    written = await world.report(
        await world.open(),
        f"session_cookie and clock_skew: see [{a}] and [{b}]",
        cited_unit_ids=(b,),
        decisive_unit_ids=(a, b),
    )
    decisive = "decisive according to the caller"
    assert written.result == (
        UnitOutcome(
            a,
            (CITATION, PHRASES, DECISION),
            f'the output cites it; the output holds "session_cookie", "clock_skew"; {decisive}',
        ),
        UnitOutcome(b, (CITATION, CALLER, DECISION), f"the output cites it; cited according to the caller; {decisive}"),
        UnitOutcome(c, (ENTAILMENT,), "entailment 0.71"),
    )
    assert not written.replayed


async def test_nothing_found_is_ignored() -> None:
    world = World()
    assert await world.methods(await world.open(), "Nothing to do with it.") == [(), (), ()]


async def test_phrases_of_the_query_do_not_count() -> None:
    world = World(query="does session_cookie matter?")
    assert await world.methods(await world.open(), "session_cookie, clock_skew") == [(), (), ()]


async def test_phrases_that_many_units_hold_do_not_count() -> None:
    world = World()
    use_cases = await world.open()
    others = [new_unit(ADA, f"x{n}", now=START, content=f"{n} sets clock_skew") for n in range(2)]
    await MemoryUnitStore(world.graph).put_units(ADA, others, WriteRequest("more", "f", 1000))
    assert await world.methods(use_cases, "session_cookie, clock_skew") == [(), (), ()]


async def test_the_same_report_gives_the_first_verdicts() -> None:
    world = World()
    use_cases = await world.open()
    a, b, _ = world.ids
    first = await world.report(use_cases, f"[{a}]", cited_unit_ids=(a, b))
    again = await world.report(use_cases, f"[{a}]", cited_unit_ids=(b, a, b))
    assert (again.result, again.replayed) == (first.result, True)
    world.tiers.contents.clear()
    assert (await world.report(use_cases, f"[{a}]", cited_unit_ids=(a, b))).replayed, "needs no content"
    for other in ({"output": f"[{b}]"}, {"output": f"[{a}]", "decisive_unit_ids": (a, b)}, {"cited_unit_ids": (a, b)}):
        with pytest.raises((AlreadyExists, Unavailable)) as caught:
            await world.report(use_cases, **other)
        assert caught.value.reason in (ErrorReason.OUTCOME_DIFFERS, ErrorReason.CONTENT_PENDING)


@pytest.mark.parametrize(
    ("fields", "reason", "field"),
    [
        ({}, ErrorReason.FIELD_REQUIRED, "output"),
        ({"output": " \n\t"}, ErrorReason.FIELD_REQUIRED, "output"),
        ({"output": "é" * 2**19 + "x"}, ErrorReason.FIELD_TOO_LARGE, "output"),
        ({"cited_unit_ids": (id_of(ADA, "a"), "aaaaaaaaaaaa")}, ErrorReason.FIELD_INVALID, "cited_unit_ids[1]"),
        ({"decisive_unit_ids": ("r1",)}, ErrorReason.FIELD_INVALID, "decisive_unit_ids[0]"),
    ],
)  # fmt: skip
async def test_what_is_refused(fields: dict[str, object], reason: ErrorReason, field: str) -> None:
    world = World()
    use_cases = await world.open()
    with pytest.raises(InvalidArgument) as caught:
        await world.report(use_cases, **fields)
    assert (caught.value.reason, caught.value.metadata["field"]) == (reason, field)
    assert not world.graph.outcomes


async def test_named_units_need_no_output() -> None:
    world = World(plugin=Plugin(1.0, 1.0, 1.0))
    use_cases = await world.open()
    world.tiers.contents.clear()
    assert await world.methods(use_cases, decisive_unit_ids=(world.ids[2],)) == [(), (), (DECISION,)]
    assert world.plugin is not None
    assert world.plugin.asked == []


async def test_a_content_that_is_away_is_no_verdict() -> None:
    world = World()
    use_cases = await world.open()
    world.tiers.contents.clear()
    with pytest.raises(Unavailable):
        await world.report(use_cases, "x")
    assert not world.graph.outcomes


async def test_an_absent_retrieval() -> None:
    use_cases = await World().open()
    with pytest.raises(NotFound):
        await use_cases.report_outcome(ADA, "r2", OutcomeReport("x"), WriteRequest("q", "f", 1000))


async def test_long_texts_are_searched_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(contents={"a": COOKIE, "b": BACKUP})
    use_cases = await world.open()
    elsewhere: list[object] = []
    real = asyncio.to_thread

    async def to_thread(work, *args):  # type: ignore[no-untyped-def]
        elsewhere.append(work)
        return await real(work, *args)

    monkeypatch.setattr(asyncio, "to_thread", to_thread)
    assert await world.methods(use_cases, "word " * 50_000 + world.ids[1]) == [(), (CITATION,)]
    assert len(elsewhere) == 1


# ---- the plug-in ----------------------------------------------------------------------------------------------------


async def test_the_plug_in_is_asked_last_and_must_be_sure() -> None:
    world = World(plugin=Plugin(0.7, 0.700001))
    assert await world.methods(await world.open(), f"[{world.ids[0]}]") == [(CITATION,), (), (ENTAILMENT,)]
    assert world.plugin is not None
    assert world.plugin.asked == [BACKUP, PLAIN]


@pytest.mark.parametrize(
    "plugin",
    [
        Plugin(fault=RuntimeError(f"cannot read {BACKUP}")), Plugin(fault=ValueError()), Plugin(1.0), Plugin(1.0, 2.0),
        Plugin(1.0, -0.1), Plugin(1.0, float("nan")), Plugin(1.0, 1.0, delay_s=60),
    ],
)  # fmt: skip
async def test_a_faulty_plug_in_is_told_in_the_log_and_the_others_stand(plugin: Plugin) -> None:
    world = World(plugin=plugin)
    with structlog.testing.capture_logs() as lines:
        assert await world.methods(await world.open(), f"[{world.ids[0]}]") == [(CITATION,), (), ()]
    (line,) = lines
    assert (line["event"], line["log_level"]) == ("entailment_failed", "warning")
    assert "nightly" not in str(line), "no content in the log"


def points(value: str) -> EntryPoints:
    return EntryPoints([EntryPoint("mine", value, app.ENTAILMENT_GROUP)])


def test_plug_ins_come_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    found = points(f"{__name__}:Plugin")
    monkeypatch.setattr(app, "entry_points", found.select)
    assert app.load_entailment("") is None
    with structlog.testing.capture_logs() as lines:
        assert type(app.load_entailment("mine")).__name__ == "Plugin"
        assert lines == []
        assert app.load_entailment("other") is None
    assert [(line["event"], line["plugin"]) for line in lines] == [("entailment_absent", "other")]


@pytest.mark.parametrize("value", ["no_such_module:Plugin", "json:no_such_name", "json:loads"])
def test_a_plug_in_that_does_not_load_stops_nothing(monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setattr(app, "entry_points", lambda **_: points(value))
    with structlog.testing.capture_logs() as lines:
        assert app.load_entailment("mine") is None
    assert [line["event"] for line in lines] == ["entailment_broken"]


def test_a_fingerprint_tells_reports_apart() -> None:
    reports = [
        OutcomeReport("x"), OutcomeReport("x "), OutcomeReport("x", ("a",)), OutcomeReport("x", (), ("a",)),
        OutcomeReport("x", ("a", "b")), OutcomeReport('x", ["a'), OutcomeReport("\ud800"),
    ]  # fmt: skip
    assert len({one.fingerprint for one in reports}) == len(reports)
    assert OutcomeReport("x", ("b", "a", "b")).fingerprint == OutcomeReport("x", ("a", "b")).fingerprint
    assert len(reports[0].fingerprint) == len(hashlib.sha256().hexdigest())
