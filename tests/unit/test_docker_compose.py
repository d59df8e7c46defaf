"""docker-compose.yml and the Dockerfile, checked without an engine; by Compose itself where it is installed."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from graphsvc.local.artifacts import NEO4J_VERSION
from graphsvc.local.neo4j import StackProfile
from graphsvc.local.s3 import rclone
from graphsvc.settings import Settings
from tests.unit.test_local_stack_parts import server

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "docker-compose.yml"
TEXT = COMPOSE.read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]
EXACT_TAG = re.compile(r"[a-z0-9][a-z0-9./_-]*:v?\d+\.\d+\.\d+[a-z0-9.-]*")
VARIABLE = re.compile(r"\$\{(\w+)(:[-?][^}]*)?\}")


def setting_names() -> set[str]:
    return {f"GRAPHSVC_{name.upper()}" for name in Settings.model_fields}


def test_every_part_is_there() -> None:
    assert set(SERVICES) == {"neo4j", "s3", "graphsvc"}
    assert SERVICES["neo4j"]["image"] == f"neo4j:{NEO4J_VERSION}-community", "the same Neo4j as the local stack's"
    assert "build" in SERVICES["graphsvc"]


def test_the_s3_image_is_the_version_that_the_local_stack_runs() -> None:
    version = subprocess.run([rclone(), "version"], capture_output=True, text=True, check=True).stdout
    assert f"rclone v{SERVICES['s3']['image'].split(':')[1]}" in version


@pytest.mark.parametrize("name", SERVICES)
def test_each_service_is_exact_healthy_and_on_loopback(name: str) -> None:
    service = SERVICES[name]
    assert EXACT_TAG.fullmatch(service["image"]), service["image"]
    check = service["healthcheck"]
    assert check["test"][0] in ("CMD", "CMD-SHELL")
    assert {"interval", "timeout", "retries"} <= set(check)
    assert service["ports"]
    for port in service["ports"]:
        assert port.startswith("127.0.0.1:"), port
    for volume in service["volumes"]:
        assert volume.split(":")[0] in yaml.safe_load(TEXT)["volumes"]


def test_every_variable_is_a_setting() -> None:
    names = set(SERVICES["graphsvc"]["environment"]) | {name for name, _ in VARIABLE.findall(TEXT)}
    names |= set(re.findall(r"\b(GRAPHSVC_\w+)=", (ROOT / "Dockerfile").read_text()))
    assert names
    assert not {name for name in names if name.startswith("GRAPHSVC_")} - setting_names()
    assert all(name.startswith("GRAPHSVC_") for name, _ in VARIABLE.findall(TEXT))


def test_secrets_have_no_default() -> None:
    for name, rest in VARIABLE.findall(TEXT):
        if name.endswith(("PASSWORD", "_KEY")):
            assert rest.startswith(":?"), name
        else:
            assert rest.startswith(":-"), name


def test_the_services_settings_are_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in setting_names():
        monkeypatch.delenv(name, raising=False)
    for name, value in SERVICES["graphsvc"]["environment"].items():
        monkeypatch.setenv(name, VARIABLE.sub(lambda m: (m[2] or "")[2:] or "x", value))
    settings = Settings()
    assert settings.neo4j_uri == "bolt://neo4j:7687"
    assert settings.s3_endpoint == "http://s3:9000"
    assert settings.allow_insecure_bind
    waits_for = SERVICES["graphsvc"]["depends_on"]
    assert {name: wait["condition"] for name, wait in waits_for.items()} == {
        "neo4j": "service_healthy",
        "s3": "service_healthy",
    }


def test_neo4j_is_as_quiet_and_as_prompt_as_the_local_stacks(tmp_path: Path) -> None:
    """The settings that keep Neo4j off the network and make a short timeout a timeout are in both."""
    environment = SERVICES["neo4j"]["environment"]
    in_compose = {
        key.removeprefix("NEO4J_").replace("__", "\0").replace("_", ".").replace("\0", "_"): value
        for key, value in environment.items()
    }
    neo4j = server(tmp_path, StackProfile.STANDARD)
    local = dict(line.split("=", 1) for line in neo4j.configuration().splitlines() if line and not line.startswith("#"))
    for key in (
        "dbms.usage_report.enabled",
        "client.allow_telemetry",
        "server.fleet_discovery.enabled",
        "dbms.fleet_manager.enabled",
        "db.transaction.monitor.check.interval",
    ):
        assert in_compose[key] == local[key], key


def test_the_dockerfile_is_exact_and_not_root() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    bases = [line.split()[1] for line in lines if line.startswith("FROM ")]
    assert bases
    assert all(EXACT_TAG.fullmatch(base) for base in bases), bases
    users = [line.split()[1] for line in lines if line.startswith("USER ")]
    assert users
    assert users[-1] not in ("root", "0")


def test_compose_accepts_the_file() -> None:
    command = _compose_command()
    if command is None:
        pytest.skip("Compose is not installed; the other tests have checked what they can")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GRAPHSVC_")}
    secrets = {name: "x" * 8 for name, rest in VARIABLE.findall(TEXT) if rest.startswith(":?")}
    done = subprocess.run(
        [*command, "-f", str(COMPOSE), "config"],
        env=environment | secrets,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert set(yaml.safe_load(done.stdout)["services"]) == set(SERVICES)

    refused = subprocess.run(
        [*command, "-f", str(COMPOSE), "config"],
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert refused.returncode != 0
    assert "set a" in refused.stderr


def _compose_command() -> list[str] | None:
    if shutil.which("docker-compose"):
        return ["docker-compose"]
    if shutil.which("docker"):
        done = subprocess.run(["docker", "compose", "version"], check=False, capture_output=True, timeout=20)
        if done.returncode == 0:
            return ["docker", "compose"]
    return None
