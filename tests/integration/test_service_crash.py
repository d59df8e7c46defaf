"""kill -9 of the whole service: what was acknowledged is there, what was not is whole or not there at all."""

from __future__ import annotations

import asyncio
import contextlib
import random
import uuid
from pathlib import Path

import pytest

from graphsvc.client import GraphsvcCallError, GraphsvcClient, UnitInput
from graphsvc.local.endpoints import StackEndpoints
from tests.support.server_process import start_server
from tests.support.service import Service, service_settings

SESSION = "crash"
BATCH = 5


def batch_of(cycle: int, number: int) -> list[UnitInput]:
    return [
        UnitInput("observation", f"cycle {cycle} write {number} unit {place}", unit_key=f"{cycle}-{number}-{place}")
        for place in range(BATCH)
    ]


async def write_until_gone(client: GraphsvcClient, cycle: int, acknowledged: list[str], stop_after: int) -> None:
    """Writes batch after batch, noting what was acknowledged, until the service is gone."""
    for number in range(10_000):
        try:
            outcomes = await client.put(SESSION, batch_of(cycle, number))
        except GraphsvcCallError:
            return
        acknowledged.extend(outcome.unit_id for outcome in outcomes)
        if number == stop_after:
            return


async def check_everything(client: GraphsvcClient, acknowledged: list[str]) -> None:
    for start in range(0, len(acknowledged), 1000):
        found = await client.get(SESSION, acknowledged[start : start + 1000])
        assert not found.missing_ids
    by_write: dict[str, int] = {}
    async for unit in client.list(SESSION, with_content=True, page_size=1000):
        cycle, number, place = unit.unit_key.split("-")
        assert unit.content == f"cycle {cycle} write {number} unit {place}"
        by_write[f"{cycle}-{number}"] = by_write.get(f"{cycle}-{number}", 0) + 1
    assert set(by_write.values()) <= {BATCH}, "a batch is visible whole or not at all"


async def kill_and_check(kills: int, service: Service, endpoints: StackEndpoints, folder: Path) -> int:
    """The number of units acknowledged over so many kills; all of them read back."""
    settings = service_settings(folder, s3_bucket=f"crash-{uuid.uuid4().hex[:8]}")
    tenant_id = await service.tenant()
    api_key = await service.api_key(tenant_id, "writer")
    chance = random.Random(3)
    acknowledged: list[str] = []
    for cycle in range(kills + 1):
        server = await start_server(settings, endpoints)
        try:
            async with GraphsvcClient(server.target, api_key=api_key, max_attempts=1, timeout_s=60) as client:
                if cycle:
                    await check_everything(client, acknowledged)
                if cycle == kills:
                    break
                if cycle % 2:
                    # right after a reply
                    await write_until_gone(client, cycle, acknowledged, stop_after=chance.randrange(4))
                    await server.kill()
                else:
                    # at any moment of a write
                    writing = asyncio.create_task(write_until_gone(client, cycle, acknowledged, stop_after=10_000))
                    await asyncio.sleep(chance.uniform(0.05, 0.5))
                    await server.kill()
                    await writing
        finally:
            with contextlib.suppress(ProcessLookupError):
                await server.kill()
    return len(acknowledged)


@pytest.mark.timeout(600)
async def test_twenty_kills_lose_nothing(service: Service, store_endpoints: StackEndpoints, tmp_path: Path) -> None:
    assert await kill_and_check(20, service, store_endpoints, tmp_path) >= 20 * BATCH


@pytest.mark.soak
@pytest.mark.timeout(7200)
async def test_a_thousand_kills_lose_nothing(service: Service, store_endpoints: StackEndpoints, tmp_path: Path) -> None:
    count = await kill_and_check(1000, service, store_endpoints, tmp_path)
    print(f"1000 kills, {count} acknowledged units, none lost")
