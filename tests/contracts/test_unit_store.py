"""What every UnitStore must do; run against the oracle and against Neo4j."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from datetime import timedelta

import pytest

from graphsvc.domain.digests import unit_digest
from graphsvc.domain.errors import (
    AlreadyExists,
    ErrorReason,
    FailedPrecondition,
    GraphsvcError,
    InvalidArgument,
    NotFound,
)
from graphsvc.domain.tenancy import Principal
from graphsvc.domain.units import ContextUnitKind, EdgeType, EpistemicStatus, Relation, ToolCall
from graphsvc.ports import Edge, NewUnit, StoredUnit, UnitFilter, WriteRequest, WriteStatus
from tests.support.store_case import READ, START, StoreCase, edges, id_of, memory_case, new_unit, supersedes, to

CREATED, EXISTING = WriteStatus.CREATED, WriteStatus.EXISTING
KIND = ContextUnitKind


async def get(stores: StoreCase, principal: Principal, *unit_ids: str) -> list[StoredUnit]:
    return list((await stores.units.get_units(principal, unit_ids, READ)).result)


async def keys(stores: StoreCase, principal: Principal, **where: object) -> list[str]:
    page = await stores.units.list_units(principal, UnitFilter(**where), None, 1000, READ)  # type: ignore[arg-type]
    return [stored.unit.unit_key for stored in page.result]


async def statuses(stores: StoreCase, principal: Principal, *units: object) -> list[WriteStatus]:
    written = await stores.units.put_units(principal, units, stores.request())  # type: ignore[arg-type]
    return [result.status for result in written.result]


async def test_a_unit_comes_back_with_every_field(stores: StoreCase) -> None:
    ada = stores.principal()
    (target,) = await stores.put(ada, stores.unit(ada, "target"))
    new = stores.unit(
        ada,
        "whole",
        to(target, EdgeType.CAUSATION, "led to", 0.25),
        to(target, EdgeType.DEPENDENCY),
        content="naïve résumé 🎈 東京",
        kind=KIND.TOOL_RESULT,
        timestamp=START - timedelta(days=400, microseconds=7),
        task_step=3,
        task_id="T-42",
        epistemic_status=EpistemicStatus.DISPUTED,
        provenance=("run 1", "log.txt"),
        path="src/Übung.py",
        model="m-1",
        pinned=True,
        tool_call=ToolCall("c1", "grep", '{"a":1}'),
        vendor_state=b"\x00\xff",
        relevance_score=0.5,
    )
    await stores.put(ada, new)
    (stored,) = await get(stores, ada, new.unit.unit_id)
    assert stored.superseded_by == ""
    assert replace(stored.unit, relations=()) == replace(new.unit, content="", relations=())
    assert sorted(stored.unit.relations, key=repr) == sorted(new.unit.relations, key=repr)


async def test_get_keeps_the_order_and_leaves_out_what_is_absent(stores: StoreCase) -> None:
    ada = stores.principal()
    one, two = await stores.put(ada, stores.unit(ada, "one"), stores.unit(ada, "two"))
    assert [s.unit.unit_id for s in await get(stores, ada, two, "absent000000", one)] == [two, one]
    assert await get(stores, ada, "absent000000") == []


async def test_the_same_unit_again_is_existing_and_its_edges_are_not_doubled(stores: StoreCase) -> None:
    ada = stores.principal()
    (target,) = await stores.put(ada, stores.unit(ada, "target"))
    assert await statuses(stores, ada, stores.unit(ada, "a", to(target))) == [CREATED]
    stores.clock.tick()
    assert await statuses(stores, ada, stores.unit(ada, "a", to(target)), stores.unit(ada, "b")) == [EXISTING, CREATED]
    (stored,) = await get(stores, ada, id_of(ada, "a"))
    assert stored.unit.relations == (to(target),)
    assert stored.unit.created_time == START


async def test_an_existing_unit_is_left_as_it_is(stores: StoreCase) -> None:
    ada = stores.principal()
    (target,) = await stores.put(ada, stores.unit(ada, "target"))
    (unit_id,) = await stores.put(ada, stores.unit(ada, "a", to(target)))
    await stores.units.delete_units(ada, [target], stores.request())
    assert await statuses(stores, ada, stores.unit(ada, "a", to(target))) == [EXISTING]
    (stored,) = await get(stores, ada, unit_id)
    assert stored.unit.relations == ()


async def test_another_unit_under_the_same_key_is_refused_and_nothing_is_stored(stores: StoreCase) -> None:
    ada = stores.principal()
    await stores.put(ada, stores.unit(ada, "a"))
    with pytest.raises(AlreadyExists) as caught:
        await stores.put(ada, stores.unit(ada, "new"), stores.unit(ada, "a", content="other"))
    assert caught.value.reason is ErrorReason.UNIT_DIFFERS
    assert caught.value.metadata["unit_key"] == "a"
    assert await keys(stores, ada) == ["a"]


async def test_two_units_under_one_key_in_one_batch(stores: StoreCase) -> None:
    ada = stores.principal()
    assert await statuses(stores, ada, stores.unit(ada, "a"), stores.unit(ada, "a")) == [CREATED, EXISTING]
    with pytest.raises(AlreadyExists):
        await stores.put(ada, stores.unit(ada, "b"), stores.unit(ada, "b", task_step=1))
    assert await keys(stores, ada) == ["a"]


async def test_a_given_timestamp_is_part_of_the_unit_and_the_time_of_the_write_is_not(stores: StoreCase) -> None:
    ada = stores.principal()
    await stores.put(ada, stores.unit(ada, "untimed"), stores.unit(ada, "timed", timestamp=START - timedelta(days=1)))
    stores.clock.tick()
    assert await statuses(stores, ada, stores.unit(ada, "untimed")) == [EXISTING]
    with pytest.raises(AlreadyExists):
        await stores.put(ada, stores.unit(ada, "timed", timestamp=START - timedelta(days=2)))


async def test_relations_may_point_into_the_batch_either_way_round_and_in_cycles(stores: StoreCase) -> None:
    ada = stores.principal()
    one, two = id_of(ada, "one"), id_of(ada, "two")
    await stores.put(ada, stores.unit(ada, "one", to(two)), stores.unit(ada, "two", to(one, EdgeType.CAUSATION)))
    first, second = await get(stores, ada, one, two)
    assert first.unit.relations == (to(two),)
    assert second.unit.relations == (to(one, EdgeType.CAUSATION),)


async def test_an_unknown_target_is_refused_and_nothing_is_stored(stores: StoreCase) -> None:
    ada, eve = stores.principal(), stores.principal("eve")
    (hidden,) = await stores.put(eve, stores.unit(eve, "hidden"))
    for target in ("absent000000", hidden):
        with pytest.raises(NotFound) as caught:
            await stores.put(ada, stores.unit(ada, "good"), stores.unit(ada, "bad", to(target)))
        assert (caught.value.reason, caught.value.metadata) == (ErrorReason.UNIT_NOT_FOUND, {"unit_id": target})
    assert await keys(stores, ada) == []


async def test_a_refused_write_leaves_its_request_id_free(stores: StoreCase) -> None:
    ada = stores.principal()
    request = stores.request()
    with pytest.raises(NotFound):
        await stores.units.put_units(ada, [stores.unit(ada, "a", to("absent000000"))], request)
    written = await stores.units.put_units(ada, [stores.unit(ada, "a")], request)
    assert not written.replayed
    assert written.result[0].status is CREATED


async def test_the_same_request_again_changes_nothing_and_answers_the_same(stores: StoreCase) -> None:
    ada = stores.principal()
    request = stores.request()
    await stores.put(ada, stores.unit(ada, "old"))
    units = [stores.unit(ada, "new"), stores.unit(ada, "old")]
    first = await stores.units.put_units(ada, units, request)
    await stores.units.delete_units(ada, [id_of(ada, "new")], stores.request())
    again = await stores.units.put_units(ada, units, request)
    assert (first.replayed, again.replayed) == (False, True)
    assert first.result == again.result
    assert [r.status for r in again.result] == [CREATED, EXISTING]
    assert await keys(stores, ada) == ["old"]


async def test_a_request_id_belongs_to_one_request_of_one_agent(stores: StoreCase) -> None:
    ada, eve = stores.principal(), stores.principal("eve")
    request = stores.request("mine", "f1")
    await stores.units.put_units(ada, [stores.unit(ada, "a")], request)
    for write in (
        stores.units.put_units(ada, [stores.unit(ada, "b")], stores.request("mine", "f2")),
        stores.units.delete_units(ada, [id_of(ada, "a")], stores.request("mine", "f2")),
        stores.units.link(ada, edges(id_of(ada, "a"), to("absent000000")), stores.request("mine", "f2")),
        stores.units.unlink(ada, edges(id_of(ada, "a"), to("absent000000")), stores.request("mine", "f2")),
    ):
        with pytest.raises(InvalidArgument) as caught:
            await write
        assert caught.value.reason is ErrorReason.REQUEST_ID_REUSED
    assert not (await stores.units.put_units(eve, [stores.unit(eve, "a")], stores.request("mine", "f2"))).replayed
    assert await keys(stores, ada) == ["a"]


async def test_writes_to_an_unknown_tenant_are_refused(stores: StoreCase) -> None:
    nobody = stores.principal(tenant_id="t-unknown-" + stores.tenant_id)
    for write in (
        stores.units.put_units(nobody, [stores.unit(nobody, "a")], stores.request()),
        stores.units.delete_units(nobody, ["absent000000"], stores.request()),
        stores.units.link(nobody, edges("absent000000", to("absent000001")), stores.request()),
        stores.units.unlink(nobody, edges("absent000000", to("absent000001")), stores.request()),
    ):
        with pytest.raises(NotFound) as caught:
            await write
        assert caught.value.reason is ErrorReason.TENANT_NOT_FOUND


async def test_a_new_unit_is_newer_than_all_it_supersedes(stores: StoreCase) -> None:
    ada = stores.principal()
    stores.clock.tick(3600)
    (future,) = await stores.put(ada, stores.unit(ada, "future"))
    stores.clock.tick(-3600)
    ids = await stores.put(
        ada,
        stores.unit(ada, "a"),
        stores.unit(ada, "b", supersedes(id_of(ada, "a"))),
        stores.unit(ada, "c", supersedes(future), supersedes(id_of(ada, "b"))),
    )
    times = [stored.unit.created_time for stored in await get(stores, ada, future, *ids)]
    assert times == [START + timedelta(seconds=3600, microseconds=n) for n in range(4)]
    assert [s.superseded_by for s in await get(stores, ada, future, *ids)] == [ids[2], ids[1], ids[2], ""]


async def test_a_supersession_of_a_later_unit_of_the_batch_is_refused(stores: StoreCase) -> None:
    ada = stores.principal()
    with pytest.raises(FailedPrecondition) as caught:
        await stores.put(ada, stores.unit(ada, "a", supersedes(id_of(ada, "b"))), stores.unit(ada, "b"))
    assert caught.value.reason is ErrorReason.SUPERSESSION_ORDER
    assert await keys(stores, ada) == []
    await stores.put(ada, stores.unit(ada, "b"))
    await stores.put(ada, stores.unit(ada, "a", supersedes(id_of(ada, "b"))), stores.unit(ada, "b"))
    assert await keys(stores, ada, current_only=True) == ["a"]


async def test_nobody_sees_anybody_elses_units_without_a_policy(stores: StoreCase) -> None:
    ada = stores.principal()
    (unit_id,) = await stores.put(ada, stores.unit(ada, "a", kind=KIND.DECISION))
    for other in (stores.principal("eve"), stores.principal("ada", "s2"), stores.principal("ada", "")):
        assert await get(stores, other, unit_id) == []
        assert await keys(stores, other) == []
    assert await get(stores, stores.principal(tenant_id="t-other"), unit_id) == []


async def test_a_policy_shares_its_kinds_until_it_expires(stores: StoreCase) -> None:
    ada, eve = stores.principal(), stores.principal("eve", "s9")
    await stores.put(ada, stores.unit(ada, "decision", kind=KIND.DECISION), stores.unit(ada, "note"))
    policy = await stores.share(ada, grantee_agent_id="eve", expires_time=stores.clock.now() + timedelta(seconds=10))
    assert await keys(stores, eve) == ["decision"]
    assert len(await get(stores, eve, id_of(ada, "decision"), id_of(ada, "note"))) == 1
    await stores.put(eve, stores.unit(eve, "answer", to(id_of(ada, "decision"))))
    with pytest.raises(NotFound):
        await stores.put(eve, stores.unit(eve, "bad", to(id_of(ada, "note"))))
    stores.clock.tick(10)
    assert await keys(stores, eve) == ["answer"]
    (answer,) = await get(stores, eve, id_of(eve, "answer"))
    assert answer.unit.relations == ()
    assert policy.kinds


async def test_every_shape_of_policy_lists_what_it_shares(stores: StoreCase) -> None:
    owners = [stores.principal(agent, session) for agent in ("ada", "bob") for session in ("s1", "s2")]
    for owner in owners:
        key = f"{owner.agent_id}-{owner.session_id}"
        await stores.put(owner, stores.unit(owner, key, kind=KIND.DECISION, task_id=key))
    for number, (agent, session, expected) in enumerate(
        [
            ("ada", "s1", ["ada-s1"]),
            ("ada", "", ["ada-s1", "ada-s2"]),
            ("", "s2", ["ada-s2", "bob-s2"]),
            ("", "", ["ada-s1", "ada-s2", "bob-s1", "bob-s2"]),
        ]
    ):
        eve = stores.principal(f"eve{number}", "s1")
        await stores.share(owners[0], owner_agent_id=agent, owner_session_id=session, grantee_agent_id=eve.agent_id)
        assert sorted(await keys(stores, eve)) == expected
        assert sorted(await keys(stores, eve, agent_id="ada")) == [k for k in expected if k.startswith("ada")]
        assert sorted(await keys(stores, eve, session_id="s2")) == [k for k in expected if k.endswith("s2")]
        assert sorted(await keys(stores, eve, task_id="ada-s2")) == [k for k in expected if k == "ada-s2"]
        assert await keys(stores, eve, own_only=True) == []
        assert await keys(stores, eve, kinds=frozenset({KIND.OBSERVATION})) == []


async def test_a_successor_that_is_not_visible_is_not_known(stores: StoreCase) -> None:
    ada, eve = stores.principal(), stores.principal("eve")
    await stores.share(ada, grantee_agent_id="eve")
    (old,) = await stores.put(ada, stores.unit(ada, "old", kind=KIND.DECISION))
    stores.clock.tick()
    await stores.put(eve, stores.unit(eve, "mine", supersedes(old)))
    assert [s.superseded_by for s in await get(stores, ada, old)] == [""]
    assert [s.superseded_by for s in await get(stores, eve, old)] == [id_of(eve, "mine")]
    assert await keys(stores, ada, current_only=True) == ["old"]
    assert await keys(stores, eve, current_only=True) == ["mine"]


async def test_list_filters_and_pages(stores: StoreCase) -> None:
    ada = stores.principal()
    kinds = list(KIND)
    await stores.put(
        ada,
        *(
            stores.unit(ada, f"k{n:02}", kind=kinds[n % 7], path=f"{'a' if n % 2 else 'b'}/{n}", task_id=f"T{n % 3}")
            for n in range(23)
        ),
    )
    every = [f"k{n:02}" for n in range(23)]
    assert await keys(stores, ada) == every
    assert await keys(stores, ada, kinds=frozenset({kinds[2]})) == [k for n, k in enumerate(every) if n % 7 == 2]
    assert await keys(stores, ada, path_prefix="a/") == every[1::2]
    assert await keys(stores, ada, task_id="T1", path_prefix="a/") == every[1::6]
    assert await keys(stores, ada, agent_id="bob") == []
    after, paged = None, []
    while page := (await stores.units.list_units(ada, UnitFilter(), after, 5, READ)).result:
        assert len(page) <= 5
        paged += [stored.unit.unit_key for stored in page]
        after = (page[-1].unit.created_time, page[-1].unit.unit_id)
    assert paged == every


async def test_units_of_one_instant_page_by_id(stores: StoreCase) -> None:
    ada, bob = stores.principal(), stores.principal("bob")
    await stores.share(bob, grantee_agent_id="ada", kinds=frozenset(KIND))
    for n in range(4):
        for owner in (ada, bob):
            await stores.put(owner, stores.unit(owner, f"{owner.agent_id}{n}"))
    ids = sorted(id_of(owner, f"{owner.agent_id}{n}") for n in range(4) for owner in (ada, bob))
    after, paged = None, []
    while page := (await stores.units.list_units(ada, UnitFilter(), after, 3, READ)).result:
        paged += [stored.unit.unit_id for stored in page]
        after = (page[-1].unit.created_time, page[-1].unit.unit_id)
    assert paged == ids


async def test_link_adds_each_edge_once(stores: StoreCase) -> None:
    ada = stores.principal()
    a, b = await stores.put(ada, stores.unit(ada, "a"), stores.unit(ada, "b"))
    wanted = edges(a, to(b), to(b, role="imports"), to(b), to(b, EdgeType.PROVENANCE, weight=0.5))
    first = await stores.units.link(ada, wanted, stores.request("l1"))
    assert list(first.result) == [CREATED, CREATED, EXISTING, CREATED]
    again = await stores.units.link(ada, wanted, stores.request("l1"))
    assert (again.result, again.replayed) == (first.result, True)
    other = await stores.units.link(ada, edges(a, to(b, weight=0.1), to(a, EdgeType.CAUSATION)), stores.request())
    assert list(other.result) == [EXISTING, CREATED]
    (stored,) = await get(stores, ada, a)
    assert {(r.target_id, r.edge_type, r.role, r.weight) for r in stored.unit.relations} == {
        (b, EdgeType.DEPENDENCY, "", 1.0),
        (b, EdgeType.DEPENDENCY, "imports", 1.0),
        (b, EdgeType.PROVENANCE, "", 0.5),
        (a, EdgeType.CAUSATION, "", 1.0),
    }


async def test_link_and_unlink_need_an_own_source_and_a_visible_target(stores: StoreCase) -> None:
    ada, eve = stores.principal(), stores.principal("eve")
    await stores.share(ada, grantee_agent_id="eve")
    shared, hidden = await stores.put(ada, stores.unit(ada, "s", kind=KIND.DECISION), stores.unit(ada, "h"))
    (mine,) = await stores.put(eve, stores.unit(eve, "mine"))
    for source, target, missing in (
        (shared, mine, shared),
        (hidden, mine, hidden),
        (mine, hidden, hidden),
        (mine, "absent000000", "absent000000"),
        ("absent000000", mine, "absent000000"),
    ):
        with pytest.raises(NotFound) as caught:
            await stores.units.link(eve, [Edge(mine, to(shared)), Edge(source, to(target))], stores.request())
        assert caught.value.metadata == {"unit_id": missing}
    assert [s.unit.relations for s in await get(stores, eve, mine)] == [()]
    await stores.units.link(ada, [Edge(shared, to(hidden))], stores.request())
    await stores.units.link(eve, [Edge(mine, to(shared))], stores.request())
    removals = [Edge(shared, to(hidden)), Edge(mine, to(hidden)), Edge(mine, to(shared)), Edge(mine, to(shared))]
    assert (await stores.units.unlink(eve, removals, stores.request("u"))).result == 1
    assert (await stores.units.unlink(eve, removals, stores.request("u"))).result == 1
    assert (await stores.units.unlink(eve, removals, stores.request("u2"))).result == 0
    assert [s.unit.relations for s in await get(stores, ada, shared)] == [(to(hidden),)]


async def test_a_supersession_must_point_to_an_older_unit(stores: StoreCase) -> None:
    ada = stores.principal()
    old, new = await stores.put(ada, stores.unit(ada, "old"), stores.unit(ada, "new"))
    with pytest.raises(FailedPrecondition) as caught:
        await stores.units.link(ada, [Edge(new, to(old)), Edge(old, supersedes(new))], stores.request())
    assert caught.value.reason is ErrorReason.SUPERSESSION_ORDER
    assert [s.unit.relations for s in await get(stores, ada, new)] == [()]
    await stores.units.link(ada, [Edge(new, supersedes(old))], stores.request())
    assert await keys(stores, ada, current_only=True) == ["new"]
    await stores.units.unlink(ada, [Edge(new, supersedes(old))], stores.request())
    assert await keys(stores, ada, current_only=True) == ["old", "new"]


async def test_delete_removes_own_units_and_tells_which(stores: StoreCase) -> None:
    ada, eve = stores.principal(), stores.principal("eve")
    await stores.share(ada, grantee_agent_id="eve")
    a, b = await stores.put(
        ada, stores.unit(ada, "a", kind=KIND.DECISION), stores.unit(ada, "b", to(id_of(ada, "a")), content="x")
    )
    assert (await stores.units.delete_units(eve, [a, b, "absent000000"], stores.request())).result == ()
    removed = await stores.units.delete_units(ada, [b, a, a, "absent000000"], stores.request("d"))
    digests = {a: stores.unit(ada, "a").unit.content_sha256, b: stores.unit(ada, "b", content="x").unit.content_sha256}
    assert removed.result == tuple(sorted(digests.items()))
    again = await stores.units.delete_units(ada, [b, a, a, "absent000000"], stores.request("d"))
    assert (again.result, again.replayed) == (removed.result, True)
    assert await keys(stores, ada) == []
    assert await statuses(stores, ada, stores.unit(ada, "a")) == [CREATED]


async def test_a_chain_of_supersession_closes_over_deleted_units(stores: StoreCase) -> None:
    ada = stores.principal()
    ids = [id_of(ada, f"v{n}") for n in range(6)]
    await stores.put(ada, *(stores.unit(ada, f"v{n}", *([supersedes(ids[n - 1])] if n else [])) for n in range(6)))
    await stores.units.delete_units(ada, [ids[1], ids[3], ids[2]], stores.request())
    found = await get(stores, ada, *ids)
    assert [(s.unit.unit_key, s.superseded_by) for s in found] == [("v0", ids[4]), ("v4", ids[5]), ("v5", "")]
    await stores.units.delete_units(ada, [ids[5], ids[4]], stores.request())
    assert [(s.unit.unit_key, s.superseded_by) for s in await get(stores, ada, *ids)] == [("v0", "")]
    assert await keys(stores, ada, current_only=True) == ["v0"]


async def test_existing_content_tells_which_versions_have_an_entry(stores: StoreCase) -> None:
    ada = stores.principal()
    new = stores.unit(ada, "a")
    await stores.put(ada, new)
    there = (new.unit.unit_id, new.unit.content_sha256)
    asked = [there, (new.unit.unit_id, "0" * 64), ("absent000000", new.unit.content_sha256)]
    assert await stores.units.existing_content(stores.tenant_id, asked) == {there}
    assert await stores.units.existing_content("t-other", asked) == frozenset()
    assert await stores.units.existing_content(stores.tenant_id, []) == frozenset()


async def test_a_batch_of_a_thousand(stores: StoreCase) -> None:
    ada = stores.principal()
    units = [stores.unit(ada, f"u{n}", *([to(id_of(ada, f"u{n // 2}"))] if n else [])) for n in range(1000)]
    assert await statuses(stores, ada, *units) == [CREATED] * 1000
    assert await statuses(stores, ada, *units) == [EXISTING] * 1000
    assert len(await keys(stores, ada)) == 1000
    removed = await stores.units.delete_units(ada, [u.unit.unit_id for u in units], stores.request())
    assert len(removed.result) == 1000


@pytest.mark.parametrize("seed", range(6))
async def test_random_writes_agree_with_the_oracle(stores: StoreCase, seed: int) -> None:
    """Two stores are given the same writes; every answer and every view of every principal must be the same."""
    dice = random.Random(seed)
    oracle = await memory_case()
    oracle.tenant_id, oracle.clock = stores.tenant_id, stores.clock
    oracle.units._graph.clock = stores.clock  # type: ignore[attr-defined]
    await oracle.tenants.create_tenant(stores.tenant_id)
    people = [stores.principal(agent, session) for agent in ("ada", "bob") for session in ("s1", "s2")]
    for _ in range(3):
        policy = await stores.share(
            dice.choice(people),
            owner_session_id=dice.choice(["", "s1"]),
            grantee_agent_id=dice.choice(["", "ada", "bob"]),
            grantee_session_id=dice.choice(["", "s2"]),
            kinds=frozenset(dice.sample(list(KIND)[:3], 2)),
        )
        oracle.units._graph.policies[stores.tenant_id, policy.policy_id] = policy  # type: ignore[attr-defined]
    ids = [id_of(person, f"k{n}") for person in people for n in range(6)]

    graph = oracle.units._graph  # type: ignore[attr-defined]
    counts: Counter[str] = Counter()
    history: list[tuple[Principal, str, object, WriteRequest]] = []

    def some_id(person: Principal, own: bool = False) -> str:
        """Mostly a unit that will do; now and then any."""
        fit = [u for u in ids if (graph.own if own else graph.visible)(person, u)]
        return dice.choice(fit) if fit and dice.random() < 0.95 else dice.choice(ids)

    def relation(person: Principal) -> Relation:
        edge_type = dice.choice([*EdgeType, EdgeType.SUPERSESSION, EdgeType.SUPERSESSION])
        return to(some_id(person), edge_type, dice.choice(["", "r"]), dice.choice([0.5, 1.0]))

    def put_of(person: Principal) -> list[NewUnit]:
        relation_count = 3 if any(graph.visible(person, u) for u in ids) else 1
        free = [n for n in range(6) if dice.random() < 0.05 or not graph.own(person, id_of(person, f"k{n}"))]
        return [
            stores.unit(
                person,
                f"k{n}",
                *(relation(person) for _ in range(dice.randrange(relation_count))),
                kind=list(KIND)[n % 2],
            )
            for n in dice.sample(free, min(len(free), dice.randrange(1, 4)))
        ]

    def edges_of(person: Principal, action: str) -> list[Edge]:
        there = [Edge(n[0], to(n[1], n[2], n[3])) for _, n in graph.edges if graph.own(person, n[0])]
        if action == "unlink" and there:
            return dice.sample(there, min(len(there), 2))
        return [Edge(some_id(person, own=True), relation(person)) for _ in range(dice.randrange(1, 3))]

    async def outcome(case: StoreCase, action: str, principal: Principal, argument: object, request: object) -> object:
        try:
            written = await getattr(case.units, action)(principal, argument, request)
            return (written.result, written.replayed)
        except GraphsvcError as error:
            return error.reason

    for step in range(70):
        person = dice.choice(people)
        stores.clock.tick(dice.choice([0, 1, 1, -1]))
        action = dice.choice(["put_units", "put_units", "put_units", "link", "link", "unlink", "delete_units"])
        if action == "put_units":
            argument: object = put_of(person)
        elif action == "delete_units":
            argument = [some_id(person, own=True) for _ in range(dice.randrange(1, 3))]
        else:
            argument = edges_of(person, action)
        request = stores.request(f"q{step}", f"f{step}")
        if history and dice.random() < 0.15:
            person, action, argument, request = dice.choice(history)
            if dice.random() < 0.3:
                request = stores.request(request.request_id, "other")
        history.append((person, action, argument, request))
        answers = [await outcome(case, action, person, argument, request) for case in (stores, oracle)]
        assert answers[0] == answers[1], (step, action)
        counts["stored" if isinstance(answers[1], tuple) else "refused"] += 1
        viewer = dice.choice(people)
        views = [(await case.units.get_units(viewer, ids, READ)).result for case in (stores, oracle)]
        assert views[0] == views[1], (step, action)
        where = UnitFilter(current_only=dice.random() < 0.5, own_only=dice.random() < 0.2)
        lists = [(await case.units.list_units(viewer, where, None, 7, READ)).result for case in (stores, oracle)]
        assert lists[0] == lists[1], (step, where)
    assert min(counts["stored"], counts["refused"]) > 5, counts


def test_the_digest_does_not_depend_on_the_order_of_relations() -> None:
    person = Principal("t", "a", "s", frozenset())
    one, two = to("aaaaaaaaaaaa"), to("bbbbbbbbbbbb", EdgeType.CAUSATION)
    first = new_unit(person, "k", one, two, now=START)
    second = new_unit(person, "k", two, one, one, now=START + timedelta(days=1))
    other = new_unit(person, "k", one, now=START)
    assert unit_digest(first.unit) == unit_digest(second.unit) != unit_digest(other.unit)
