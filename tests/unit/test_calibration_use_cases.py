"""When recalibration is due, what it stores, and what becomes of two at once; over the stores in memory."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

import pytest

from graphsvc.domain.errors import ErrorReason, Internal, InvalidArgument, NotFound, Unavailable
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.ports import FeedbackExample, WriteRequest
from graphsvc.ranking.calibration import Calibration, calibrate
from graphsvc.services.calibration import CalibrationSettings, CalibrationUseCases
from graphsvc.services.fit_process import fit_in_process
from tests.support.memory_predictors import MemoryPredictorStore
from tests.support.memory_stores import MemoryGraph
from tests.support.store_case import READ, TickingClock

DAY_S = 86_400.0
SETTINGS = CalibrationSettings(retrievals=100, interval_s=DAY_S)
NOTHING = calibrate((), None)


class Reports(MemoryPredictorStore):
    """Feedback that is only counted."""

    def __init__(self, graph: MemoryGraph) -> None:
        super().__init__(graph)
        self.graph = graph

    def report(self, tenant_id: str, count: int) -> None:
        self.graph.tenants.add(tenant_id)
        for _ in range(count):
            self.graph.reported_times[tenant_id, f"r{len(self.graph.reported_times)}"] = self.graph.clock.now()

    async def list_examples(self, tenant_id: str, retrieval_limit: int) -> tuple[FeedbackExample, ...]:
        return ()


class Bench:
    """Use cases with a fit that answers at once."""

    def __init__(self, *, adopted: bool = True) -> None:
        self.clock = TickingClock()
        self.store = Reports(MemoryGraph(self.clock))
        self.store.graph.tenants.add("t")
        self.fits: list[PredictorVersion | None] = []
        self.found = replace(NOTHING, report=replace(NOTHING.report, adopted=adopted, reasons=("said why",)))
        self.calibration = CalibrationUseCases(self.store, self.clock, SETTINGS, self.fit)

    async def fit(self, examples: Sequence[FeedbackExample], in_use: PredictorVersion | None) -> Calibration:
        self.fits.append(in_use)
        await asyncio.sleep(0)
        return self.found

    async def recalibrate(self, *, force: bool = False, request_id: str = ""):
        request = WriteRequest(request_id or f"q{len(self.fits)}", "f", 1000)
        return await self.calibration.recalibrate(admin("t"), request, force=force)

    async def versions(self, tenant_id: str = "t") -> tuple[list[int], int]:
        history = (await self.calibration.list_predictors(admin(tenant_id), READ)).result
        return [one.version for one in history.versions], history.in_use


def admin(tenant_id: str) -> Principal:
    return Principal(tenant_id, "root", "", frozenset())


@pytest.fixture
def bench() -> Bench:
    return Bench()


# ---- when it is due -------------------------------------------------------------------------------------------------


async def test_a_hundred_retrievals_are_a_batch_and_one_less_is_none(bench: Bench) -> None:
    for reported, done in ((0, 0), (99, 0), (1, 1), (0, 0), (99, 0), (1, 1)):
        bench.store.report("t", reported)
        assert await bench.calibration.recalibrate_due() == done
        bench.clock.tick()


async def test_a_day_after_the_last_fit_one_retrieval_is_enough(bench: Bench) -> None:
    bench.store.report("t", 1)
    bench.clock.tick(DAY_S - 1)
    assert await bench.calibration.recalibrate_due() == 0
    bench.clock.tick(1)
    assert await bench.calibration.recalibrate_due() == 1, "a day after the first report"
    bench.clock.tick(10 * DAY_S)
    assert await bench.calibration.recalibrate_due() == 0, "nothing new"
    bench.store.report("t", 1)
    assert await bench.calibration.recalibrate_due() == 1


async def test_a_caller_learns_why_it_is_not_due(bench: Bench) -> None:
    written = await bench.recalibrate()
    assert written.result.version is None
    assert "no outcome" in written.result.detail
    bench.store.report("t", 7)
    written = await bench.recalibrate()
    due = bench.clock.now() + timedelta(days=1)
    assert "7 retrievals" in written.result.detail
    assert f"{due:%Y-%m-%d %H:%M}" in written.result.detail
    assert bench.fits == []


async def test_it_can_be_forced(bench: Bench) -> None:
    bench.store.report("t", 1)
    written = await bench.recalibrate(force=True)
    assert written.result.version is not None
    assert (written.result.version.version, written.result.in_use, written.result.detail) == (1, 1, "said why")


async def test_every_tenant_gets_its_turn(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsvc.services.calibration.PAGE_SIZE", 2)
    for number in range(7):
        bench.store.report(f"t{number}", 100 if number % 2 else 1)
    assert await bench.calibration.recalibrate_due() == 3
    assert [(await bench.versions(f"t{number}"))[1] for number in range(7)] == [0, 1, 0, 1, 0, 1, 0]


async def test_what_fails_for_one_tenant_does_not_stop_the_others(bench: Bench) -> None:
    for tenant_id in ("a", "b"):
        bench.store.report(tenant_id, 100)
    fit = bench.fit

    async def failing(examples: Sequence[FeedbackExample], in_use: PredictorVersion | None) -> Calibration:
        if not bench.fits:
            bench.fits.append(None)
            raise Unavailable(ErrorReason.GRAPH_UNAVAILABLE, "away")
        return await fit(examples, in_use)

    calibration = CalibrationUseCases(bench.store, bench.clock, SETTINGS, failing)
    assert await calibration.recalibrate_due() == 1
    assert (await bench.versions("a"), await bench.versions("b")) == (([], 0), ([1], 1))


# ---- what is stored -------------------------------------------------------------------------------------------------


async def test_versions_count_up_and_the_adopted_one_is_measured_against(bench: Bench) -> None:
    for _ in range(2):
        bench.store.report("t", 100)
        await bench.recalibrate()
        bench.clock.tick()
    assert await bench.versions() == ([1, 2], 2)
    assert [one and one.version for one in bench.fits] == [None, 1]


async def test_what_is_not_adopted_is_kept_and_not_used() -> None:
    bench = Bench(adopted=False)
    written = await bench.recalibrate(force=True)
    assert written.result.version is not None
    assert not written.result.version.adopted
    assert await bench.versions() == ([1], 0)


async def test_a_fit_has_seen_what_was_reported_before_it_began(bench: Bench) -> None:
    bench.store.report("t", 100)
    began = bench.clock.now()

    async def slow(examples: Sequence[FeedbackExample], in_use: PredictorVersion | None) -> Calibration:
        bench.clock.tick()
        bench.store.report("t", 3)
        return bench.found

    calibration = CalibrationUseCases(bench.store, bench.clock, SETTINGS, slow)
    written = await calibration.recalibrate(admin("t"), WriteRequest("q", "f", 1000), force=False)
    assert written.result.version is not None
    assert written.result.version.created_time == began
    left = await bench.store.get_unlearned("t", 100)
    assert left is not None
    assert left.retrieval_count == 3


async def test_the_same_request_again_gives_the_version_of_the_first_time(bench: Bench) -> None:
    bench.store.report("t", 100)
    first = await bench.recalibrate(force=True, request_id="once")
    again = await bench.recalibrate(force=True, request_id="once")
    assert (first.result, first.replayed, again.replayed) == (again.result, False, True)
    assert await bench.versions() == ([1], 1)


async def test_two_processes_at_once_store_one_version(bench: Bench) -> None:
    bench.store.report("t", 100)
    other = CalibrationUseCases(bench.store, bench.clock, SETTINGS, bench.fit)
    await asyncio.gather(bench.calibration.recalibrate_due(), other.recalibrate_due())
    assert len(bench.fits) == 2
    assert await bench.versions() == ([1], 1)


async def test_a_roll_back_during_the_fit_wins(bench: Bench) -> None:
    await bench.recalibrate(force=True)

    async def slow(examples: Sequence[FeedbackExample], in_use: PredictorVersion | None) -> Calibration:
        await bench.calibration.roll_back(admin("t"), 0, WriteRequest("back", "f", 1000))
        return bench.found

    calibration = CalibrationUseCases(bench.store, bench.clock, SETTINGS, slow)
    written = await calibration.recalibrate(admin("t"), WriteRequest("q", "f", 1000), force=True)
    assert written.result.version is None
    assert "meanwhile" in written.result.detail
    assert await bench.versions() == ([1], 0)


# ---- roll-back ------------------------------------------------------------------------------------------------------


async def test_any_version_can_be_put_in_use(bench: Bench) -> None:
    for _ in range(2):
        await bench.recalibrate(force=True)
    for number, (version, before) in enumerate(((1, 2), (0, 1), (2, 0))):
        written = await bench.calibration.roll_back(admin("t"), version, WriteRequest(f"b{number}", "f", 1000))
        assert written.result == before
        assert (await bench.versions())[1] == version
    await bench.recalibrate(force=True)
    assert bench.fits[-1] is not None
    assert bench.fits[-1].version == 2, "measured against what is in use"


async def test_versions_that_are_not_there_are_refused(bench: Bench) -> None:
    await bench.recalibrate(force=True)
    with pytest.raises(NotFound) as absent:
        await bench.calibration.roll_back(admin("t"), 9, WriteRequest("b", "f", 1000))
    assert absent.value.reason is ErrorReason.PREDICTOR_NOT_FOUND
    with pytest.raises(InvalidArgument):
        await bench.calibration.roll_back(admin("t"), -1, WriteRequest("b", "f", 1000))


# ---- the process ----------------------------------------------------------------------------------------------------


def test_the_fit_runs_in_a_process_of_its_own() -> None:
    script = """
        import asyncio, sys
        from graphsvc.services.fit_process import fit_in_process
        from tests.support.simulated_feedback import Simulation

        async def main():
            simulation = Simulation(seed=1)
            simulation.run(60)
            ticks = 0
            fitting = asyncio.create_task(fit_in_process(simulation.examples, None))
            while not fitting.done():
                await asyncio.sleep(0.005)
                ticks += 1
            found = await fitting
            print(found.report.fit_retrievals > 20, ticks > 5, "scipy" in sys.modules)

        asyncio.run(main())
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout.strip() == "True True False", done.stderr


async def test_a_fit_that_nobody_waits_for_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[asyncio.subprocess.Process] = []
    create = asyncio.create_subprocess_exec

    async def sleeping(*command: str, **options: object) -> asyncio.subprocess.Process:
        started.append(await create(sys.executable, "-c", "import time; time.sleep(600)", **options))  # type: ignore[arg-type]
        return started[-1]

    monkeypatch.setattr(asyncio, "create_subprocess_exec", sleeping)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1.0):
            await fit_in_process((), None)
    assert await started[0].wait() == -signal.SIGKILL


async def test_a_fit_that_fails_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphsvc.services.fit_process.__name__", "graphsvc.no_such_module")
    with pytest.raises(Internal, match="no_such_module"):
        await fit_in_process((), None)
