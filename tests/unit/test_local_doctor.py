"""The doctor's checks without servers: what is found, and that each fault comes with advice."""

from __future__ import annotations

import asyncio
from pathlib import Path

import lmdb
import pytest

from graphsvc import doctor
from graphsvc.doctor import Finding, Outcome, clock_finding, examine
from graphsvc.domain.errors import ErrorReason, FailedPrecondition, Unavailable
from graphsvc.graph.catalog import Mode, load_catalog
from graphsvc.graph.probe import expected_indexes
from graphsvc.graph.schema import VECTOR_INDEX
from graphsvc.local.files import choose_ports, write_private
from graphsvc.settings import Settings
from graphsvc.tiers.probe import probe_cold, probe_warm


def examined(settings: Settings) -> dict[str, Finding]:
    async def collect() -> list[Finding]:
        return [finding async for finding in examine(settings, None)]

    findings = asyncio.run(collect())
    for finding in findings:
        assert finding.found
        if finding.outcome in (Outcome.WARN, Outcome.FAIL):
            assert finding.advice, finding
    return {finding.name: finding for finding in findings}


@pytest.fixture
def no_tokenizers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading the vocabularies takes half a second, and one test does it."""
    monkeypatch.setattr(doctor, "_tokenizers", lambda _settings: Finding("tokenizers", Outcome.OK, "none"))


def settings_on(state_dir: Path, **fields: object) -> Settings:
    base = {"state_dir": state_dir, "cache_dir": state_dir / "cache", "neo4j_uri": None, "s3_endpoint": None}
    return Settings.model_validate({**base, **fields})


def test_a_stack_that_does_not_run_is_no_fault_and_says_how_to_start_it(tmp_path: Path) -> None:
    found = examined(settings_on(tmp_path))
    assert found["java"].outcome is Outcome.OK
    assert found["rclone"].outcome is Outcome.OK
    assert found["neo4j"].outcome is Outcome.WARN
    assert "graphsvc up" in found["neo4j"].advice
    assert found["indexes"].outcome is Outcome.SKIPPED
    assert found["s3"].outcome is Outcome.WARN
    assert found["tokenizers"].outcome is Outcome.OK
    assert not any(finding.outcome is Outcome.FAIL for finding in found.values())


@pytest.mark.usefixtures("no_tokenizers")
def test_stores_elsewhere_that_do_not_answer_are_faults(tmp_path: Path) -> None:
    ports = choose_ports({"bolt_port": 0, "s3_port": 0}, {})
    found = examined(
        settings_on(
            tmp_path,
            neo4j_uri=f"bolt://127.0.0.1:{ports['bolt_port']}",
            s3_endpoint=f"http://127.0.0.1:{ports['s3_port']}",
            s3_access_key="a" * 10,
            s3_secret_key="b" * 10,
        )
    )
    assert "java" not in found, "no local stack is used"
    assert found["neo4j"].outcome is Outcome.FAIL
    assert found["clock"].outcome is Outcome.SKIPPED
    assert found["s3"].outcome is Outcome.FAIL
    assert "GRAPHSVC_S3_ENDPOINT" in found["s3"].advice


@pytest.mark.usefixtures("no_tokenizers")
def test_an_s3_endpoint_without_keys_is_a_fault(tmp_path: Path) -> None:
    found = examined(settings_on(tmp_path, s3_endpoint="http://127.0.0.1:1"))
    assert found["s3"].outcome is Outcome.FAIL
    assert "GRAPHSVC_S3_ACCESS_KEY" in found["s3"].advice


@pytest.mark.usefixtures("no_tokenizers")
def test_credentials_that_others_may_read_are_a_fault(tmp_path: Path) -> None:
    write_private(tmp_path / "neo4j-password", "secret")
    assert examined(settings_on(tmp_path))["credentials"].outcome is Outcome.OK
    (tmp_path / "neo4j-password").chmod(0o644)
    finding = examined(settings_on(tmp_path))["credentials"]
    assert finding.outcome is Outcome.FAIL
    assert "chmod 600" in finding.advice


@pytest.mark.usefixtures("no_tokenizers")
def test_what_a_check_raises_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: object) -> Finding:
        raise FailedPrecondition(ErrorReason.CONTENT_CORRUPT, "three units have no content: restore them")

    monkeypatch.setattr(doctor, "_orphans", broken)
    found = examined(settings_on(tmp_path))["orphaned content"]
    assert found == Finding("orphaned content", Outcome.FAIL, "three units have no content", "restore them")


@pytest.mark.parametrize(
    ("skew_s", "outcome"),
    [(0.0, Outcome.OK), (-0.9, Outcome.OK), (1.5, Outcome.WARN), (-59, Outcome.WARN), (61, Outcome.FAIL)],
)
def test_clock_skew(skew_s: float, outcome: Outcome) -> None:
    finding = clock_finding(skew_s)
    assert finding.outcome is outcome
    assert bool(finding.advice) is (outcome is not Outcome.OK)
    assert ("ahead of" if skew_s > 0 else "behind") in finding.found


def test_expected_indexes_are_those_that_the_schema_files_make() -> None:
    catalog = load_catalog()
    expected = expected_indexes(catalog)
    made = [s for s in catalog.in_folder("schema") if s.mode is Mode.SCHEMA]
    assert len(expected) == len(made) > 10
    assert VECTOR_INDEX in expected


@pytest.mark.usefixtures("no_tokenizers")
def test_lmdb_absent_present_and_broken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "warm"
    assert not probe_warm(path).exists
    assert not path.exists(), "a probe makes nothing"

    with lmdb.open(str(path), map_size=2**24, max_dbs=4) as environment, environment.begin(write=True) as transaction:
        transaction.put(b"key", b"value" * 1000)
    probe = probe_warm(path)
    assert probe.exists
    assert probe.map_bytes == 2**24
    assert 0 < probe.used_bytes < 2**20 < probe.free_bytes

    monkeypatch.setattr(doctor, "DISK_WARN_BYTES", 2**70)
    assert examined(settings_on(tmp_path))["lmdb"].outcome is Outcome.WARN
    monkeypatch.setattr(doctor, "DISK_FAIL_BYTES", 2**70)
    assert examined(settings_on(tmp_path))["lmdb"].outcome is Outcome.FAIL

    (path / "data.mdb").write_bytes(b"no database" * 1000)
    with pytest.raises(FailedPrecondition, match="cannot be opened"):
        probe_warm(path)


def test_s3_that_does_not_answer(tmp_path: Path) -> None:
    port = choose_ports({"s3_port": 0}, {})["s3_port"]
    with pytest.raises(Unavailable, match="does not answer"):
        probe_cold(
            endpoint=f"http://127.0.0.1:{port}",
            access_key="a" * 10,
            secret_key="b" * 10,
            region="us-east-1",
            bucket="b",
            prefix="",
        )
