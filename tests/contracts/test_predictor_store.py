"""What every PredictorStore must do; run against the oracle and against Neo4j."""

from __future__ import annotations

import asyncio

import pytest

from graphsvc.domain.budget import Budget, Ledger
from graphsvc.domain.candidates import Disposition, Outcome
from graphsvc.domain.errors import ErrorReason, InvalidArgument, NotFound
from graphsvc.domain.outcomes import ReferenceMethod, UnitOutcome
from graphsvc.domain.predictors import PredictorVersion
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind
from graphsvc.ports import FeedbackExample, LoggedSelection, RetrievalRecord
from tests.support.store_case import READ, StoreCase, id_of

LIMIT = 1000
FEATURES = ("topic_match", "recency")


def predictor(stores: StoreCase, version: int, *, adopted: bool = True) -> PredictorVersion:
    return PredictorVersion(
        version=version,
        created_time=stores.clock.now(),
        prior_version="prior-1",
        intercept=-3.5,
        weights={"topic_match": 7.25, "recency": 0.5},
        reference_rates={ContextUnitKind.DECISION: 0.5, ContextUnitKind.PROGRESS_NOTE: 0.125},
        retrieval_count=70,
        example_count=500,
        adopted=adopted,
        report_json='{"adopted":true}',
    )


async def save(stores: StoreCase, version: int, in_use_before: int, *, adopted: bool = True) -> int | None:
    made = predictor(stores, version, adopted=adopted)
    return (await stores.predictors.save_predictor(stores.principal(), made, in_use_before, stores.request())).result


async def versions(stores: StoreCase) -> tuple[list[int], int]:
    history = (await stores.predictors.list_predictors(stores.tenant_id, READ)).result
    return [one.version for one in history.versions], history.in_use


async def deliver(stores: StoreCase, owner: Principal, retrieval_id: str) -> None:
    """Records a retrieval that selected units a and b and deferred c."""
    chosen = (("a", Disposition.SELECTED, 0.75), ("b", Disposition.SELECTED, 0.25), ("c", Disposition.DUPLICATE, 0.5))
    selections = tuple(
        LoggedSelection(
            unit_id=id_of(owner, key),
            disposition=disposition,
            value=value,
            cost=10,
            rank=rank,
            features=(value, 0.5) if disposition is Disposition.SELECTED else (),
        )
        for rank, (key, disposition, value) in enumerate(chosen, 1)
    )
    record = RetrievalRecord(
        retrieval_id=retrieval_id,
        query_text="why?",
        fingerprint="f" * 64,
        embedding=None,
        task_id="",
        task_step=0,
        strategy="around_task",
        outcome=Outcome.SELECTED,
        ledger=Ledger(Budget(1000), tokens_spent=20, ranking_charge=1, candidates_selected=2, candidates_deferred=1),
        partial=False,
        created_time=stores.clock.now(),
        duration_ms=1.0,
        payload_sha256="a" * 64,
        candidates_json="[]",
        selections=selections,
        feature_names=FEATURES,
    )
    await stores.feedback.record_retrieval(owner, record, 20_000)


async def report(stores: StoreCase, owner: Principal, retrieval_id: str, *used: str) -> None:
    """Delivers, and reports that of a and b those were referenced; time goes on."""
    await deliver(stores, owner, retrieval_id)
    outcomes = [
        UnitOutcome(id_of(owner, key), (ReferenceMethod.CITATION,) if key in used else ()) for key in ("a", "b")
    ]
    await stores.feedback.record_outcome(owner, retrieval_id, outcomes, "f" * 64, stores.request())
    stores.clock.tick()


@pytest.fixture
async def owner(stores: StoreCase) -> Principal:
    """An agent with units a, b and c."""
    ada = stores.principal()
    kinds = {"a": ContextUnitKind.DECISION, "b": ContextUnitKind.PROGRESS_NOTE, "c": ContextUnitKind.OBSERVATION}
    await stores.put(ada, *(stores.unit(ada, key, kind=kind) for key, kind in kinds.items()))
    return ada


async def test_examples_are_verdicts_with_the_features_of_then(stores: StoreCase, owner: Principal) -> None:
    first = stores.clock.now()
    await report(stores, owner, "r2", "a")
    second = stores.clock.now()
    await report(stores, owner, "r1")
    await deliver(stores, owner, "r3")  # nothing reported

    def examples(retrieval_id: str, time: object, referenced: bool) -> dict[str, FeedbackExample]:
        return {
            "a": FeedbackExample(retrieval_id, time, ContextUnitKind.DECISION,  # type: ignore[arg-type]
                                 {"topic_match": 0.75, "recency": 0.5}, 0.75, referenced),
            "b": FeedbackExample(retrieval_id, time, ContextUnitKind.PROGRESS_NOTE,  # type: ignore[arg-type]
                                 {"topic_match": 0.25, "recency": 0.5}, 0.25, False),
        }  # fmt: skip

    order = sorted("ab", key=lambda key: id_of(owner, key))
    of_second = [examples("r1", second, False)[key] for key in order]
    of_first = [examples("r2", first, True)[key] for key in order]
    assert list(await stores.predictors.list_examples(stores.tenant_id, LIMIT)) == of_first + of_second
    assert list(await stores.predictors.list_examples(stores.tenant_id, 1)) == of_second
    assert await stores.predictors.list_examples("t-other", LIMIT) == ()


async def test_examples_of_deleted_units_are_gone(stores: StoreCase, owner: Principal) -> None:
    await report(stores, owner, "r1", "a")
    await stores.units.delete_units(owner, [id_of(owner, "a")], stores.request())
    (left,) = await stores.predictors.list_examples(stores.tenant_id, LIMIT)
    assert left.kind is ContextUnitKind.PROGRESS_NOTE


async def test_unlearned_feedback_is_what_was_reported_after_the_last_fit(stores: StoreCase, owner: Principal) -> None:
    assert await stores.predictors.get_unlearned(stores.tenant_id, LIMIT) is None
    oldest = stores.clock.now()
    for number in range(3):
        await report(stores, owner, f"r{number}", "a")
    found = await stores.predictors.get_unlearned(stores.tenant_id, LIMIT)
    assert found is not None
    assert (found.tenant_id, found.retrieval_count) == (stores.tenant_id, 3)
    assert (found.oldest_time, found.last_fit_time) == (oldest, None)
    limited = await stores.predictors.get_unlearned(stores.tenant_id, 2)
    assert limited is not None
    assert limited.retrieval_count == 2

    fitted = stores.clock.now()
    assert await save(stores, 1, 0, adopted=False) == 1, "a fit that was not adopted has seen the feedback too"
    assert await stores.predictors.get_unlearned(stores.tenant_id, LIMIT) is None
    newest = stores.clock.tick()
    await report(stores, owner, "r9")
    found = await stores.predictors.get_unlearned(stores.tenant_id, LIMIT)
    assert found is not None
    assert (found.retrieval_count, found.oldest_time, found.last_fit_time) == (1, newest, fitted)


async def test_tenants_with_unlearned_feedback_are_listed_in_order(stores: StoreCase, owner: Principal) -> None:
    await report(stores, owner, "r1")
    found = await stores.predictors.list_unlearned(stores.tenant_id, 1, LIMIT)
    assert [(one.tenant_id, one.retrieval_count) for one in found] == [(stores.tenant_id, 1)]
    after = await stores.predictors.list_unlearned(stores.tenant_id + "\0", 1000, LIMIT)
    ids = [one.tenant_id for one in after]
    assert stores.tenant_id not in ids
    assert ids == sorted(ids)


async def test_versions_come_back_as_they_were_saved(stores: StoreCase) -> None:
    assert await versions(stores) == ([], 0)
    made = [predictor(stores, 1), predictor(stores, 2, adopted=False)]
    for one in made:
        await stores.predictors.save_predictor(stores.principal(), one, 1 if one.version == 2 else 0, stores.request())
    history = (await stores.predictors.list_predictors(stores.tenant_id, READ)).result
    assert list(history.versions) == made
    assert history.in_use == 1
    assert history.current == made[0]
    session = (await stores.feedback.read_session(stores.principal(), READ)).result
    if stores.name == "neo4j":  # the oracle's stores share no versions
        assert session.predictor == made[0]


async def test_only_the_first_of_two_saves(stores: StoreCase) -> None:
    assert await save(stores, 1, 0) == 1
    assert await save(stores, 1, 0) is None, "the version is there"
    assert await save(stores, 2, 0) is None, "another is in use than when the fit began"
    assert await versions(stores) == ([1], 1)
    assert await save(stores, 2, 1) == 2
    assert await versions(stores) == ([1, 2], 2)


async def test_of_concurrent_saves_one_wins(stores: StoreCase) -> None:
    results = await asyncio.gather(*(save(stores, 1, 0) for _ in range(6)))
    assert sorted(results, key=str) == [1, None, None, None, None, None]
    assert await versions(stores) == ([1], 1)


async def test_a_loser_may_send_its_request_again(stores: StoreCase) -> None:
    assert await save(stores, 1, 0) == 1
    request = stores.request("again")
    lost = await stores.predictors.save_predictor(stores.principal(), predictor(stores, 1), 0, request)
    assert lost.result is None
    won = await stores.predictors.save_predictor(stores.principal(), predictor(stores, 2), 1, request)
    assert (won.result, won.replayed) == (2, False)


async def test_a_request_saves_once(stores: StoreCase) -> None:
    ada, request = stores.principal(), stores.request("once")
    await stores.predictors.save_predictor(ada, predictor(stores, 1), 0, request)
    again = await stores.predictors.save_predictor(ada, predictor(stores, 2), 1, request)
    assert (again.result, again.replayed) == (1, True)
    assert await versions(stores) == ([1], 1)
    with pytest.raises(InvalidArgument) as refused:
        await stores.predictors.save_predictor(ada, predictor(stores, 2), 1, stores.request("once", "another"))
    assert refused.value.reason is ErrorReason.REQUEST_ID_REUSED


async def test_any_version_can_be_used_again(stores: StoreCase) -> None:
    for version in (1, 2, 3):
        await save(stores, version, version - 1)
    ada = stores.principal()
    for version, before in ((1, 3), (0, 1), (0, 0), (3, 0), (3, 3)):
        written = await stores.predictors.use_predictor(ada, version, stores.request())
        assert written.result == before
        assert await versions(stores) == ([1, 2, 3], version)


async def test_a_replayed_roll_back_undoes_nothing(stores: StoreCase) -> None:
    ada, request = stores.principal(), stores.request("back")
    await save(stores, 1, 0)
    assert (await stores.predictors.use_predictor(ada, 0, request)).result == 1
    await save(stores, 2, 0)
    again = await stores.predictors.use_predictor(ada, 0, request)
    assert (again.result, again.replayed) == (1, True)
    assert await versions(stores) == ([1, 2], 2)


async def test_a_version_that_is_not_there_is_not_used(stores: StoreCase) -> None:
    await save(stores, 1, 0)
    with pytest.raises(NotFound) as refused:
        await stores.predictors.use_predictor(stores.principal(), 7, stores.request())
    assert refused.value.reason is ErrorReason.PREDICTOR_NOT_FOUND
    assert await versions(stores) == ([1], 1)


async def test_tenants_do_not_mix(stores: StoreCase) -> None:
    await save(stores, 1, 0)
    elsewhere = stores.principal(tenant_id=stores.tenant_id + "-b")
    with pytest.raises(NotFound) as refused:
        await stores.predictors.save_predictor(elsewhere, predictor(stores, 1), 0, stores.request())
    assert refused.value.reason is ErrorReason.TENANT_NOT_FOUND
    await stores.tenants.create_tenant(elsewhere.tenant_id)
    assert (await stores.predictors.list_predictors(elsewhere.tenant_id, READ)).result.versions == ()
    with pytest.raises(NotFound) as refused:
        await stores.predictors.use_predictor(elsewhere, 1, stores.request())
    assert refused.value.reason is ErrorReason.PREDICTOR_NOT_FOUND
