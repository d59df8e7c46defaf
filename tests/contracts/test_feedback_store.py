"""What every FeedbackStore must do; run against the oracle and against Neo4j."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import ErrorReason, NotFound
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ports import RetrievalRecord
from tests.support.store_case import DIMENSIONS, READ, START, StoreCase

Selection = tuple[str, Disposition, float, int, int]
SELECTED = Disposition.SELECTED


def record_of(retrieval_id: str, *selections: Selection, **fields: object) -> RetrievalRecord:
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


async def record(stores: StoreCase, principal: Principal, made: RetrievalRecord) -> None:
    await stores.feedback.record_retrieval(principal, made, 20_000)


async def test_a_retrieval_comes_back_as_it_was_written(stores: StoreCase) -> None:
    ada = stores.principal()
    a, b, c = await stores.put(ada, *(stores.unit(ada, key) for key in "abc"))
    vector = np.linspace(-1, 1, DIMENSIONS, dtype=np.float32)
    made = record_of(
        "r1",
        (b, SELECTED, 0.9, 100, 1),
        (c, SELECTED, 0.8, 200, 2),
        (a, Disposition.OVER_BUDGET, 0.25, 5000, 3),
        embedding=vector,
        partial=True,
        ledger=Ledger(Budget.of_step(8000, 500, 0.4), 300, 20, 2, 1),
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
    selections = [(u, SELECTED, 0.5, 10, n) for n, u in enumerate((shared, kept, deleted, "absent000000"), 1)]
    await record(stores, ada, record_of("r1", *selections))

    async def selected() -> list[str]:
        return [s[0] for s in (await stores.feedback.get_retrieval(ada, "r1", READ)).result.selections]

    assert await selected() == [shared, kept, deleted]
    await stores.units.delete_units(ada, [deleted], stores.request())
    assert await selected() == [shared, kept]
    await stores.tenants.delete_policy(bob, policy.policy_id, stores.request())
    assert await selected() == [kept]
    assert (await stores.feedback.count_unreferenced(ada, READ)).result == {kept: 1}


async def test_deliveries_of_the_last_fifty_retrievals_are_counted(stores: StoreCase) -> None:
    ada, other = stores.principal(), stores.principal("ada", "s2")
    a, b, c = await stores.put(ada, *(stores.unit(ada, key) for key in "abc"))
    for number in range(55):
        units = [a, b] if number < 7 else [a]
        selections: list[Selection] = [(u, SELECTED, 0.5, 10, n) for n, u in enumerate(units, 1)]
        selections.append((c, Disposition.BELOW_VALUE, 0.01, 10, 3))
        await record(stores, ada, record_of(f"r{number}", *selections, created_time=stores.clock.tick()))
    assert (await stores.feedback.count_unreferenced(ada, READ)).result == {a: 50, b: 2}
    assert (await stores.feedback.count_unreferenced(other, READ)).result == {}


async def test_a_retrieval_of_an_unknown_tenant_is_refused(stores: StoreCase) -> None:
    with pytest.raises(NotFound) as caught:
        await record(stores, stores.principal(tenant_id="t-unknown-" + stores.tenant_id), record_of("r1"))
    assert caught.value.reason is ErrorReason.TENANT_NOT_FOUND
