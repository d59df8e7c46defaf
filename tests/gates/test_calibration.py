"""Gates B9 and B10: what a tenant's feedback makes of its predictor, and when.

The workload is one that the shared prior has wrong: progress notes and tool results are used, decisions and
observations are not. Everything goes through Retrieve and ReportOutcome.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import timedelta

import neo4j
import numpy as np
import pytest

from graphsvc.client import ClientSession, GraphsvcCallError, GraphsvcClient, PredictorInfo, Retrieval, Unit, UnitInput
from graphsvc.domain.tenancy import Role
from graphsvc.domain.units import ContextUnitKind
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.v1 import predictor_service_pb2 as predictor_pb
from tests.gates.conftest import FrozenService
from tests.gates.stubs import Refusal, Stubs
from tests.gates.worlds import around
from tests.support.service import Service, running_service, service_settings

ANCHORS = 4
UNITS = 12
AT_ONCE = 8
AMPLE = 100_000
LIBRARY = "library"
USED = {"progress_note": 0.8, "tool_result": 0.6, "observation": 0.15, "decision": 0.05}
"""How often a delivered unit is used, by kind: about the reverse of what the prior assumes."""

Verdict = Callable[[np.random.Generator, ContextUnitKind], bool]


def honest(rng: np.random.Generator, kind: ContextUnitKind) -> bool:
    return bool(rng.random() < USED[kind.value])


def inverted(rng: np.random.Generator, kind: ContextUnitKind) -> bool:
    return not honest(rng, kind)


def at_random(rng: np.random.Generator, kind: ContextUnitKind) -> bool:
    return bool(rng.random() < 0.4)


@dataclass(slots=True)
class Workload:
    """A tenant that retrieves and reports, each time in a session of its own.

    Attributes:
        clock: moved by a second for each batch of reports; None: the real one moves by itself.
    """

    service: Service
    tenant_id: str
    client: GraphsvcClient
    anchors: list[str]
    clock: FrozenService | None = None
    rng: np.random.Generator = field(default_factory=lambda: np.random.default_rng(7))

    async def retrieve(self, anchor: int = 0, *, described: int = 100) -> tuple[ClientSession, Retrieval]:
        session = self.client.session(uuid.uuid4().hex)
        answer = await session.retrieve(
            anchor_unit_ids=[self.anchors[anchor]],
            wanted_edge_types=["dependency"],
            retrieval_budget=AMPLE,
            max_described_candidates=described,
        )
        return session, answer

    async def run(self, count: int, verdict: Verdict = honest) -> None:
        """Retrieves and reports so many times."""
        turns = itertools.cycle(range(ANCHORS))
        for _ in range(0, count, AT_ONCE):
            if self.clock is not None:
                self.clock.clock.moment += timedelta(seconds=1)
            batch = min(AT_ONCE, count)
            count -= batch
            found = await asyncio.gather(*(self.retrieve(next(turns), described=0) for _ in range(batch)))
            used = [self.chosen(answer.units, verdict) for _, answer in found]
            await asyncio.gather(
                *(
                    session.report_outcome(answer.retrieval_id, "Done.", cited_unit_ids=ids)
                    for (session, answer), ids in zip(found, used, strict=True)
                )
            )

    def chosen(self, units: tuple[Unit, ...], verdict: Verdict) -> list[str]:
        # by key: the order of a payload goes by ids, which differ in each run
        return [unit.unit_id for unit in sorted(units, key=lambda one: one.unit_key) if verdict(self.rng, unit.kind)]

    async def versions(self) -> list[PredictorInfo]:
        """Ascending."""
        return [one async for one in self.client.list_predictors()][::-1]

    async def weights(self) -> dict[str, float]:
        """What a retrieval ranks with now."""
        _, answer = await self.retrieve()
        return {part.feature: part.weight for part in answer.candidates[0].contributions}

    async def mean_value(self, kind: str) -> float:
        """Of the candidates of a kind, at the same distance and along the same edges for all kinds."""
        _, answer = await self.retrieve()
        values = [one.value for one in answer.candidates if one.kind == kind and one.graph_path is not None]
        return float(np.mean(values))


async def make_workload(service: Service, clock: FrozenService | None = None) -> Workload:
    """A tenant with its library: units of four kinds around each anchor, one and two hops away."""
    tenant_id = await service.tenant()
    client = await service.client(tenant_id, "agent-a")
    kinds = list(USED)
    units: list[UnitInput] = []
    for anchor in range(ANCHORS):
        units.append(UnitInput("decision", f"anchor {anchor}", unit_key=f"a{anchor}"))
        for number in range(UNITS):
            kind = kinds[number % len(kinds)]
            near = f"a{anchor}" if number < 8 else f"a{anchor}-{number - 8}"
            edge_type = "causation" if number // len(kinds) == 1 else "dependency"
            units.append(around(near, f"a{anchor}-{number}", 20, kind=kind, edge_type=edge_type))
    put = {one.unit_key: one.unit_id for one in await client.put(LIBRARY, units)}
    await client.create_policy(owner_session_id=LIBRARY, grantee_agent_id="agent-a", kinds=list(ContextUnitKind))
    return Workload(service, tenant_id, client, [put[f"a{anchor}"] for anchor in range(ANCHORS)], clock)


# ---- B9 -------------------------------------------------------------------------------------------------------------


async def test_B9_history_gains_weight_smoothly_with_the_amount_of_feedback(frozen: FrozenService) -> None:
    workload = await make_workload(frozen.service, frozen)
    prior = await workload.weights()
    steps = (0, 4, 12, 36)
    spreads: list[float] = []
    structure: list[float] = []
    for more in steps:
        await workload.run(more)
        fitted = (await workload.client.recalibrate(force=True)).predictor
        assert fitted is not None
        rates = fitted.reference_rates
        # how far history alone parts the kind used most from the one used least
        gap = rates[ContextUnitKind.PROGRESS_NOTE] - rates[ContextUnitKind.DECISION]
        spreads.append(fitted.weights["historical_reference_rate"] * gap)
        structure.append(fitted.weights["graph_distance"] / prior["graph_distance"])

    assert spreads == sorted(spreads)
    assert spreads[0] < 0 < spreads[-1], "the prior thinks otherwise, and is outgrown"
    whole = spreads[-1] - spreads[0]
    assert spreads[1] - spreads[0] < 0.2 * whole, "four retrievals hardly matter"
    for more, gain in zip(steps[1:], np.diff(spreads), strict=True):
        assert gain / more < 3 * whole / sum(steps), "no leap"
    assert structure[0] == pytest.approx(1.0), "without feedback the prior stands"
    assert structure[1] > 0.8, "and with little it nearly does"
    assert structure[2] > 0.5


# ---- B10 ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Drifted:
    """What happened to a tenant whose workload the prior has wrong, in the order of the fields."""

    workload: Workload
    prior: dict[str, float]
    at_99: tuple[PredictorInfo | None, str]
    at_100: PredictorInfo | None
    weights_before: dict[str, float]
    weights_after: dict[str, float]
    note_before: float
    note_after: float
    decision_before: float
    decision_after: float
    at_101: PredictorInfo | None
    a_day_later: PredictorInfo | None
    with_nothing_new: PredictorInfo | None


@pytest.fixture(scope="module")
async def drifted(frozen: FrozenService) -> Drifted:
    workload = await make_workload(frozen.service, frozen)
    client = workload.client
    prior = await workload.weights()
    await workload.run(99)
    early = await client.recalibrate()
    before = await workload.weights()
    note_before, decision_before = await workload.mean_value("progress_note"), await workload.mean_value("decision")
    await workload.run(1)
    at_100 = (await client.recalibrate()).predictor
    after = await workload.weights()
    note_after, decision_after = await workload.mean_value("progress_note"), await workload.mean_value("decision")
    await workload.run(1)
    at_101 = (await client.recalibrate()).predictor
    frozen.clock.moment += timedelta(days=1)
    a_day_later = (await client.recalibrate()).predictor
    frozen.clock.moment += timedelta(days=1)
    with_nothing_new = (await client.recalibrate()).predictor
    return Drifted(
        workload=workload,
        prior=prior,
        at_99=(early.predictor, early.detail),
        at_100=at_100,
        weights_before=before,
        weights_after=after,
        note_before=note_before,
        note_after=note_after,
        decision_before=decision_before,
        decision_after=decision_after,
        at_101=at_101,
        a_day_later=a_day_later,
        with_nothing_new=with_nothing_new,
    )


async def test_B10_recalibration_is_in_batch_each_hundred_retrievals_or_daily(drifted: Drifted) -> None:
    assert drifted.at_99[0] is None
    assert "99 retrievals" in drifted.at_99[1]
    assert drifted.weights_before == drifted.prior, "99 retrievals were ranked with the prior"
    assert drifted.at_100 is not None
    assert drifted.at_101 is None, "one more is no batch"
    assert drifted.a_day_later is not None, "but it is, a day later"
    assert drifted.with_nothing_new is None
    assert [one.version for one in await drifted.workload.versions()][:2] == [1, 2]


async def test_B10_a_drifted_workload_is_adopted(drifted: Drifted, graph_driver: neo4j.AsyncDriver) -> None:
    fitted = drifted.at_100
    assert fitted is not None
    assert fitted.adopted
    report = fitted.report
    assert report.candidate.brier < report.in_use.brier  # type: ignore[operator]
    assert report.fit_retrievals + report.held_out_retrievals == 100, "it is measured on what is kept out of the fit"
    assert report.held_out_retrievals >= 15
    expected = {one.kind: abs(one.expected - one.observed) for one in report.candidate.by_kind}
    assumed = {one.kind: abs(one.expected - one.observed) for one in report.in_use.by_kind}
    assert sum(expected.values()) < sum(assumed.values()), "expected comes near observed"
    assert len(report.candidate.by_decile) == 10

    assert drifted.weights_after == pytest.approx(fitted.weights), "retrievals rank with it"
    assert drifted.decision_before > drifted.note_before
    assert drifted.decision_after < drifted.note_after
    (row,), _, _ = await graph_driver.execute_query(
        "MATCH (:Tenant {tenant_id: $id})-[u:USES]->(p:Predictor) RETURN p.adopted AS adopted, u.since AS since",
        id=drifted.workload.tenant_id,
    )
    assert row["adopted"]
    assert row["since"] is not None


async def test_B10_a_poisoned_batch_is_not_adopted(drifted: Drifted) -> None:
    workload = drifted.workload
    await workload.run(59)
    await workload.client.recalibrate(force=True)
    before = await workload.weights()
    await workload.run(50, inverted)
    poisoned = (await workload.client.recalibrate(force=True)).predictor
    assert poisoned is not None
    assert not poisoned.adopted
    assert poisoned.report.reasons
    assert await workload.weights() == before


async def test_B10_any_version_can_be_put_in_use_again(drifted: Drifted) -> None:
    workload, client = drifted.workload, drifted.workload.client
    versions = await workload.versions()
    in_use = next(one for one in versions if one.in_use)
    assert await client.roll_back_predictor(0, request_id="back") == in_use.version
    assert await workload.weights() == drifted.prior
    assert not any(one.in_use for one in await workload.versions())

    assert await client.roll_back_predictor(1) == 0
    assert await workload.weights() == pytest.approx(versions[0].weights)
    assert await client.roll_back_predictor(0, request_id="back") == in_use.version, "the reply is the first one"
    assert await workload.weights() == pytest.approx(versions[0].weights), "and nothing happens again"
    assert [one.version for one in await workload.versions() if one.in_use] == [1]
    assert [one.version for one in await workload.versions()] == [one.version for one in versions]

    with pytest.raises(GraphsvcCallError) as refused:
        await client.roll_back_predictor(99)
    assert refused.value.reason == "PREDICTOR_NOT_FOUND"


@pytest.fixture(scope="module")
async def by_itself(
    store_endpoints: StackEndpoints, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Workload]:
    """A tenant of a service that looks for what is due all the time; by number only, so that it lets others be."""
    settings = service_settings(
        tmp_path_factory.mktemp("by-itself"), recalibration_check_s=0.2, recalibration_interval_s=1e9
    )
    async with contextlib.AsyncExitStack() as exits:
        yield await make_workload(await exits.enter_async_context(running_service(settings, store_endpoints)))


async def test_B10_shuffled_verdicts_are_not_adopted(by_itself: Workload) -> None:
    prior = await by_itself.weights()
    await by_itself.run(99, at_random)
    await asyncio.sleep(1.0)
    assert await by_itself.versions() == [], "nobody asked, and it was not due"
    await by_itself.run(1, at_random)
    for _ in range(600):
        if versions := await by_itself.versions():
            break
        await asyncio.sleep(0.1)
    else:
        pytest.fail("the service did not recalibrate by itself")
    (only,) = versions
    assert not only.adopted
    assert any("chance" in reason for reason in only.report.reasons)
    assert await by_itself.weights() == prior


async def test_B10_predictors_are_the_tenants_own_and_for_admins(drifted: Drifted, frozen: FrozenService) -> None:
    service = drifted.workload.service
    stranger = await service.client(await service.tenant(), "agent-a")
    assert [one async for one in stranger.list_predictors()] == []
    refusals: list[GraphsvcCallError] = []
    for version in (1, 99):  # there in the other tenant, and nowhere
        with pytest.raises(GraphsvcCallError) as refused:
            await stranger.roll_back_predictor(version)
        refusals.append(refused.value)
    assert [one.reason for one in refusals] == ["PREDICTOR_NOT_FOUND"] * 2
    assert refusals[0].message.replace("1", "99") == refusals[1].message

    member = await service.client(
        drifted.workload.tenant_id, "agent-b", frozenset({Role.READER, Role.WRITER, Role.ANALYST})
    )
    for call in (member.recalibrate(), member.roll_back_predictor(0), anext(aiter(member.list_predictors()))):
        with pytest.raises(GraphsvcCallError) as refused:
            await call
        assert refused.value.reason == "ROLE_MISSING"


async def test_B10_versions_are_paged_newest_first(drifted: Drifted, frozen: FrozenService) -> None:
    numbers = [one.version for one in await drifted.workload.versions()][::-1]
    assert [one.version async for one in drifted.workload.client.list_predictors(page_size=1)] == numbers
    service = drifted.workload.service
    async with Stubs(frozen.service.target) as stubs:
        own = await service.api_key(drifted.workload.tenant_id, "agent-a")
        page = await stubs.call("ListPredictors", predictor_pb.ListPredictorsRequest(page_size=1), own)
        assert isinstance(page, predictor_pb.ListPredictorsResponse)
        request = predictor_pb.ListPredictorsRequest(page_token=page.next_page_token)
        foreign = await service.api_key(await service.tenant(), "agent-a")
        refused = await stubs.call("ListPredictors", request, foreign)
        assert isinstance(refused, Refusal)
        assert refused.reason == "PAGE_TOKEN_INVALID"
