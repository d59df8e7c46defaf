"""What every FeedbackStore must do; run against the oracle and against Neo4j."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind, EdgeType
from graphsvc.ports import LoggedSelection, RetrievalRecord, RetrievalStep, SessionHistory
from tests.support.store_case import DIMENSIONS, READ, START, StoreCase

SELECTED = Disposition.SELECTED


def record_of(retrieval_id: str, *selections: LoggedSelection, **fields: object) -> RetrievalRecord:
    record = RetrievalRecord(
        retrieval_id=retrieval_id,
        query_text="why does login fail?",
        fingerprint="f" * 64,
        embedding=None,
        task_id="T-1",
        task_step=4,
        strategy="around_task",
        outcome=Outcome.SELECTED,
        ledger=Ledger(Budget(1000), tokens_spent=300, ranking_charge=20, candidates_selected=2, candidates_deferred=1),
        partial=False,
        created_time=START,
        duration_ms=12.5,
        payload_sha256="a" * 64,
        candidates_json='[{"unit_id":"x"}]',
        selections=selections,
    )
    return replace(record, **fields)  # type: ignore[arg-type]


def without_vector(record: RetrievalRecord) -> RetrievalRecord:
    return replace(record, embedding=None)


def selected(*unit_ids: str) -> list[LoggedSelection]:
    return [LoggedSelection(unit_id, SELECTED, 0.5, 10, rank) for rank, unit_id in enumerate(unit_ids, 1)]


async def record(stores: StoreCase, principal: Principal, made: RetrievalRecord) -> None:
    await stores.feedback.record_retrieval(principal, made, 20_000)


async def history(stores: StoreCase, principal: Principal) -> SessionHistory:
    return (await stores.feedback.read_session(principal, READ)).result


async def test_a_retrieval_comes_back_as_it_was_written(stores: StoreCase) -> None:
    ada = stores.principal()
    a, b, c = await stores.put(ada, *(stores.unit(ada, key) for key in "abc"))
    vector = np.linspace(-1, 1, DIMENSIONS, dtype=np.float32)
    made = record_of(
        "r1",
        LoggedSelection(b, SELECTED, 0.9, 100, 1, 0, (), (1.0, 0.25)),
        LoggedSelection(c, SELECTED, 0.8, 200, 2, 2, (EdgeType.CAUSATION, EdgeType.DEPENDENCY), (0.1 + 0.2, -0.0)),
        LoggedSelection(a, Disposition.OVER_BUDGET, 0.25, 5000, 3),
        embedding=vector,
        partial=True,
        ledger=Ledger(Budget.of_step(8000, 500, 0.4), 300, 20, 2, 1),
        deferred_ids=tuple(sorted((a, "gone00000000"))),
        predictor_version=3,
        feature_names=("topic_match", "graph_distance"),
    )
    await record(stores, ada, made)
    found = (await stores.feedback.get_retrieval(ada, "r1", READ)).result
    assert without_vector(found) == without_vector(made)
    assert found.embedding is not None
    assert np.array_equal(found.embedding, vector)
    await record(stores, ada, record_of("r2"))
    assert (await stores.feedback.get_retrieval(ada, "r2", READ)).result == record_of("r2")


async def test_a_retrieval_is_its_sessions_own(stores: StoreCase) -> None:
    ada = stores.principal()
    await record(stores, ada, record_of("r1"))
    others = [
        stores.principal("ada", "s2"),
        stores.principal("bob"),
        stores.principal("ada", ""),
        stores.principal(tenant_id="t-other"),
    ]
    for principal, retrieval_id in [(ada, "absent"), *((other, "r1") for other in others)]:
        with pytest.raises(NotFound) as caught:
            await stores.feedback.get_retrieval(principal, retrieval_id, READ)
        assert caught.value.reason is ErrorReason.RETRIEVAL_NOT_FOUND


async def test_units_deleted_or_no_longer_visible_are_left_out(stores: StoreCase) -> None:
    ada, bob = stores.principal(), stores.principal("bob")
    (shared,) = await stores.put(bob, stores.unit(bob, "shared", kind=ContextUnitKind.DECISION))
    kept, deleted = await stores.put(ada, stores.unit(ada, "kept"), stores.unit(ada, "deleted"))
    policy = await stores.share(bob, grantee_agent_id="ada")
    await record(stores, ada, record_of("r1", *selected(shared, kept, deleted, "absent000000")))

    async def logged() -> list[str]:
        return [s.unit_id for s in (await stores.feedback.get_retrieval(ada, "r1", READ)).result.selections]

    assert await logged() == [shared, kept, deleted]
    await stores.units.delete_units(ada, [deleted], stores.request())
    assert await logged() == [shared, kept]
    await stores.tenants.delete_policy(bob, policy.policy_id, stores.request())
    assert await logged() == [kept]
    assert (await history(stores, ada)).unreferenced == {kept: 1}


async def test_deliveries_of_the_last_fifty_retrievals_are_counted(stores: StoreCase) -> None:
    ada, other = stores.principal(), stores.principal("ada", "s2")
    a, b, c = await stores.put(ada, *(stores.unit(ada, key) for key in "abc"))
    for number in range(55):
        units = selected(a, b) if number < 7 else selected(a)
        units.append(LoggedSelection(c, Disposition.BELOW_VALUE, 0.01, 10, 3))
        await record(stores, ada, record_of(f"r{number}", *units, created_time=stores.clock.tick()))
    assert (await history(stores, ada)).unreferenced == {a: 50, b: 2}
    assert await history(stores, other) == SessionHistory()


async def test_the_last_eight_steps_come_back_newest_first(stores: StoreCase) -> None:
    ada, bob = stores.principal(), stores.principal("bob")
    a, b, c = await stores.put(ada, *(stores.unit(ada, key) for key in "abc"))
    assert (await history(stores, ada)).steps == ()
    for number in range(10):
        logged = (*selected(a), LoggedSelection(b, Disposition.OVER_BUDGET, 0.1, 900, 2))
        made = record_of(f"r{number}", *logged, task_step=number, created_time=stores.clock.tick())
        await record(stores, ada, replace(made, deferred_ids=(c, b) if number % 2 else ()))
        await record(stores, bob, replace(made, retrieval_id=f"bob{number}", task_step=77, deferred_ids=(a,)))
    assert (await history(stores, ada)).steps == tuple(
        RetrievalStep(number, frozenset({b, c} if number % 2 else ()), frozenset({a})) for number in range(9, 1, -1)
    )
    # What was deferred is told by id, whether or not the unit is still there; who is gone was not delivered any more.
    await stores.units.delete_units(ada, [a, b], stores.request())
    assert (await history(stores, ada)).steps[0] == RetrievalStep(9, frozenset({b, c}), frozenset())


async def test_a_unit_once_lowered_stays_so_in_its_session(stores: StoreCase) -> None:
    ada, second, bob = stores.principal(), stores.principal("ada", "s2"), stores.principal("bob")
    a, b = await stores.put(ada, *(stores.unit(ada, key) for key in "ab"))
    await record(stores, ada, record_of("r0", *selected(b), lowered_ids=(a, "absent000000")))
    for number in range(1, 60):
        lowered = (a, b) if number == 5 else ()
        await record(stores, ada, record_of(f"r{number}", created_time=stores.clock.tick(), lowered_ids=lowered))
    assert (await history(stores, ada)).lowered == {a, b}
    for other in (second, bob, stores.principal("ada", ""), stores.principal(tenant_id="t-other")):
        assert await history(stores, other) == SessionHistory()
    await stores.units.delete_units(ada, [a], stores.request())
    assert (await history(stores, ada)).lowered == {b}


async def test_units_of_others_can_be_lowered_too(stores: StoreCase) -> None:
    ada, bob = stores.principal(), stores.principal("bob")
    (shared,) = await stores.put(bob, stores.unit(bob, "shared", kind=ContextUnitKind.DECISION))
    await stores.share(bob, grantee_agent_id="ada")
    await record(stores, ada, record_of("r1", lowered_ids=(shared,), deferred_ids=(shared,)))
    assert (await history(stores, ada)).lowered == {shared}
    assert (await history(stores, bob)).lowered == frozenset()


async def test_a_retrieval_of_an_unknown_tenant_is_refused(stores: StoreCase) -> None:
    with pytest.raises(NotFound) as caught:
        await record(stores, stores.principal(tenant_id="t-unknown-" + stores.tenant_id), record_of("r1"))
    assert caught.value.reason is ErrorReason.TENANT_NOT_FOUND
