"""What every TenantStore must do; run against the oracle and against Neo4j."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from graphsvc.domain.errors import ErrorReason, InvalidArgument, NotFound, ResourceExhausted
from graphsvc.domain.tenancy import Policy, Principal, Role
from graphsvc.domain.units import ContextUnitKind
from graphsvc.graph.catalog import load_catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.tenant_store import load_service_secret
from graphsvc.ports import ApiKey, WriteStatus
from tests.support.store_case import READ, START, StoreCase

SECRET = "5" * 64


def key_of(stores: StoreCase, key_id: str, **fields: object) -> ApiKey:
    key = ApiKey(f"{key_id}-{stores.tenant_id}", stores.tenant_id, "ada", frozenset({Role.WRITER}), START, None)
    return replace(key, **fields)  # type: ignore[arg-type]


async def policies(stores: StoreCase, principal: Principal) -> list[Policy]:
    return list((await stores.tenants.list_policies(principal, None, 1000, READ)).result)


async def test_a_tenant_is_made_once(stores: StoreCase) -> None:
    assert await stores.tenants.create_tenant(stores.tenant_id) is WriteStatus.EXISTING
    assert await stores.tenants.create_tenant(stores.tenant_id + "-2") is WriteStatus.CREATED


async def test_a_key_is_found_by_its_id(stores: StoreCase) -> None:
    key = key_of(stores, "k", roles=frozenset(Role), expires_time=START + timedelta(days=1))
    await stores.tenants.create_key(key, SECRET)
    assert await stores.tenants.find_key(key.key_id) == (key, SECRET)
    assert await stores.tenants.find_key("absent") is None


async def test_a_key_needs_a_known_tenant(stores: StoreCase) -> None:
    with pytest.raises(NotFound) as caught:
        await stores.tenants.create_key(key_of(stores, "k", tenant_id="t-unknown-" + stores.tenant_id), SECRET)
    assert caught.value.reason is ErrorReason.TENANT_NOT_FOUND


async def test_a_key_ends_when_it_expires(stores: StoreCase) -> None:
    key = key_of(stores, "k", expires_time=START + timedelta(seconds=5))
    await stores.tenants.create_key(key, SECRET)
    stores.clock.tick(4)
    assert await stores.tenants.find_key(key.key_id) is not None
    stores.clock.tick(1)
    assert await stores.tenants.find_key(key.key_id) is None
    assert await stores.tenants.list_keys(stores.tenant_id) == (key,)


async def test_a_key_ends_when_it_is_revoked_by_its_own_tenant(stores: StoreCase) -> None:
    one, two = key_of(stores, "k1"), key_of(stores, "k2", created_time=START - timedelta(days=1), agent_id="bob")
    for key in (one, two):
        await stores.tenants.create_key(key, SECRET)
    assert await stores.tenants.list_keys(stores.tenant_id) == (two, one)
    assert not await stores.tenants.revoke_key("t-other", one.key_id)
    assert not await stores.tenants.revoke_key(stores.tenant_id, "absent")
    assert await stores.tenants.revoke_key(stores.tenant_id, one.key_id)
    assert not await stores.tenants.revoke_key(stores.tenant_id, one.key_id)
    assert await stores.tenants.find_key(one.key_id) is None
    assert await stores.tenants.list_keys(stores.tenant_id) == (two,)


async def test_a_policy_comes_back_as_it_was_made(stores: StoreCase) -> None:
    ada = stores.principal()
    made = [
        await stores.share(
            ada,
            owner_session_id="s1",
            grantee_agent_id="bob",
            grantee_session_id="s2",
            kinds=frozenset({ContextUnitKind.OBSERVATION, ContextUnitKind.DECISION}),
            expires_time=START + timedelta(days=3, microseconds=1),
        ),
    ]
    stores.clock.tick()
    made.append(await stores.share(ada))
    assert await policies(stores, ada) == made


async def test_who_sees_which_policies(stores: StoreCase) -> None:
    ada, bob, admin = stores.principal(), stores.principal("bob", ""), stores.principal("root", "", Role.ADMIN)
    to_all, to_bob, to_eve, every = [
        await stores.share(ada),
        await stores.share(ada, grantee_agent_id="bob", grantee_session_id="s7"),
        await stores.share(ada, grantee_agent_id="eve"),
        await stores.share(admin, owner_agent_id="", grantee_agent_id="eve"),
    ]

    async def seen(principal: Principal) -> set[str]:
        return {policy.policy_id for policy in await policies(stores, principal)}

    ids = {p.policy_id for p in (to_all, to_bob, to_eve, every)}
    assert await seen(admin) == ids
    assert await seen(ada) == ids - {every.policy_id}
    assert await seen(bob) == {to_all.policy_id, to_bob.policy_id}
    assert await seen(stores.principal("bob", "s8")) == {to_all.policy_id}
    assert await seen(stores.principal("eve", "")) == ids - {to_bob.policy_id}
    assert await seen(stores.principal("root", "", Role.ADMIN, tenant_id="t-other")) == set()


async def test_policies_page_by_time_then_id(stores: StoreCase) -> None:
    ada = stores.principal()
    made: list[Policy] = []
    for number in range(7):
        made.append(await stores.share(ada, grantee_agent_id=f"g{number}"))
        stores.clock.tick(number % 2)
    made.sort(key=lambda p: (p.created_time, p.policy_id))
    after, paged = None, []
    while page := (await stores.tenants.list_policies(ada, after, 2, READ)).result:
        paged += page
        after = (page[-1].created_time, page[-1].policy_id)
    assert paged == made


async def test_a_policy_is_made_once_per_request(stores: StoreCase) -> None:
    ada = stores.principal()
    policy = await stores.share(ada, expires_time=START + timedelta(days=1))
    one = replace(policy, policy_id="one")
    first = await stores.tenants.create_policy(ada, one, stores.request("r"))
    again = await stores.tenants.create_policy(ada, replace(policy, policy_id="two"), stores.request("r"))
    assert (first.result, first.replayed) == (one, False)
    assert (again.result, again.replayed) == (one, True)
    with pytest.raises(InvalidArgument) as caught:
        await stores.tenants.create_policy(ada, one, stores.request("r", "other"))
    assert caught.value.reason is ErrorReason.REQUEST_ID_REUSED
    assert len(await policies(stores, ada)) == 2


async def test_a_policy_is_ended_by_its_owner_or_an_admin_only(stores: StoreCase) -> None:
    ada, bob, admin = stores.principal(), stores.principal("bob"), stores.principal("root", "", Role.ADMIN)
    one, two = await stores.share(ada), await stores.share(ada, grantee_agent_id="bob")
    for principal, policy_id in (
        (bob, two.policy_id),
        (bob, "absent"),
        (stores.principal("root", "", Role.ADMIN, tenant_id=stores.tenant_id), "absent"),
    ):
        with pytest.raises(NotFound) as caught:
            await stores.tenants.delete_policy(principal, policy_id, stores.request())
        assert caught.value.reason is ErrorReason.POLICY_NOT_FOUND
    first = await stores.tenants.delete_policy(ada, one.policy_id, stores.request("r"))
    again = await stores.tenants.delete_policy(ada, one.policy_id, stores.request("r"))
    assert (first.result, first.replayed, again.result, again.replayed) == (True, False, True, True)
    with pytest.raises(NotFound):
        await stores.tenants.delete_policy(ada, one.policy_id, stores.request())
    await stores.tenants.delete_policy(admin, two.policy_id, stores.request())
    assert await policies(stores, ada) == []


async def test_a_grantee_has_at_most_64_policies(stores: StoreCase) -> None:
    ada = stores.principal()
    for _ in range(64):
        last = await stores.share(ada, grantee_agent_id="bob")
    with pytest.raises(ResourceExhausted) as caught:
        await stores.share(ada, grantee_agent_id="bob")
    assert caught.value.reason is ErrorReason.LIMIT_EXCEEDED
    await stores.share(ada, grantee_agent_id="bob", grantee_session_id="s1")
    await stores.tenants.delete_policy(ada, last.policy_id, stores.request())
    await stores.share(ada, grantee_agent_id="bob")
    assert len(await policies(stores, ada)) == 65


async def test_policies_of_an_unknown_tenant_are_refused(stores: StoreCase) -> None:
    nobody = stores.principal(tenant_id="t-unknown-" + stores.tenant_id)
    with pytest.raises(NotFound) as caught:
        await stores.share(nobody)
    assert caught.value.reason is ErrorReason.TENANT_NOT_FOUND


async def test_every_process_gets_the_same_secret(store_driver: GraphDriver) -> None:
    catalog = load_catalog()
    secrets = {await load_service_secret(store_driver, catalog) for _ in range(3)}
    assert [len(secret) for secret in secrets] == [32]
