"""The Neo4j and the S3 server that the tests run against.

In this order: the server that GRAPHSVC_TEST_NEO4J_URI (with _USER and _PASSWORD) names, with an S3 server started here;
docker-compose.yml through pytest-docker, where a Docker engine answers; else the local stack with the test profile, in
a state directory that lives as long as the session. Never a wiped database: every test has a tenant of its own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from pydantic import SecretStr

from graphsvc.local.bolt import bolt_version
from graphsvc.local.endpoints import StackEndpoints
from graphsvc.local.files import LOOPBACK, choose_ports
from graphsvc.local.progress import ConsoleProgress
from graphsvc.local.stack import LocalStack, StackProfile
from graphsvc.settings import Settings

URI_VARIABLE = "GRAPHSVC_TEST_NEO4J_URI"
USER_VARIABLE = "GRAPHSVC_TEST_NEO4J_USER"
PASSWORD_VARIABLE = "GRAPHSVC_TEST_NEO4J_PASSWORD"

COMPOSE_FILE = Path(__file__).parents[2] / "docker-compose.yml"


@contextlib.contextmanager
def running_stack() -> Iterator[StackEndpoints]:
    """Endpoints of a running Neo4j 2026.x and an S3 server, for as long as the context lasts."""
    with tempfile.TemporaryDirectory(prefix="graphsvc-test-", ignore_cleanup_errors=True) as scratch:
        if uri := os.environ.get(URI_VARIABLE):
            password = os.environ.get(PASSWORD_VARIABLE)
            settings = Settings(
                state_dir=Path(scratch),
                neo4j_uri=uri,
                neo4j_user=os.environ.get(USER_VARIABLE, "neo4j"),
                neo4j_password=SecretStr(password) if password else None,
                s3_endpoint=None,
            )
        elif _docker_answers():
            with _compose() as endpoints:
                yield endpoints
            return
        else:
            settings = Settings(
                state_dir=Path(scratch), neo4j_uri=None, s3_endpoint=None, bolt_port=0, http_port=0, s3_port=0
            )
        stack = LocalStack(settings, profile=StackProfile.SHORT_LIVED)
        try:
            yield stack.start(ConsoleProgress())
        finally:
            stack.stop()


def _docker_answers() -> bool:
    """Whether a Docker engine answers, asked for no longer than a few seconds."""
    if shutil.which("docker") is None:
        return False
    try:
        done = subprocess.run(["docker", "info"], check=False, capture_output=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


@contextlib.contextmanager
def _compose() -> Iterator[StackEndpoints]:
    """Endpoints of docker-compose.yml's stores, on free ports under a project name of their own."""
    from pytest_docker.plugin import get_docker_services

    ports = choose_ports({"bolt_port": 0, "http_port": 0, "s3_port": 0}, {})
    password, access_key, secret_key = (secrets.token_hex(12) for _ in range(3))
    os.environ.update(
        {
            "GRAPHSVC_NEO4J_PASSWORD": password,
            "GRAPHSVC_S3_ACCESS_KEY": access_key,
            "GRAPHSVC_S3_SECRET_KEY": secret_key,
            **{f"GRAPHSVC_{name.upper()}": str(port) for name, port in ports.items()},
        }
    )
    project = f"graphsvc-test-{os.getpid()}"
    try:
        with get_docker_services(
            "docker compose", str(COMPOSE_FILE), project, ["up --wait neo4j s3"], ["down --volumes"]
        ) as services:
            services.wait_until_responsive(
                check=lambda: bolt_version(LOOPBACK, ports["bolt_port"]) is not None, timeout=120, pause=0.5
            )
            yield StackEndpoints(
                neo4j_uri=f"bolt://{LOOPBACK}:{ports['bolt_port']}",
                neo4j_user="neo4j",
                neo4j_password=password,
                http_url=f"http://{LOOPBACK}:{ports['http_port']}",
                s3_endpoint=f"http://{LOOPBACK}:{ports['s3_port']}",
                s3_access_key=access_key,
                s3_secret_key=secret_key,
            )
    finally:
        for name in ("NEO4J_PASSWORD", "S3_ACCESS_KEY", "S3_SECRET_KEY", "BOLT_PORT", "HTTP_PORT", "S3_PORT"):
            os.environ.pop(f"GRAPHSVC_{name}", None)
