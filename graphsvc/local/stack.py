"""The local stack: Neo4j and an S3 server in a state directory, started and ended together.

``LocalStack`` is plain blocking code without an event loop; asynchronous callers run ``start`` and ``stop`` in a
thread.

Layout of a state directory (mode 0700)::

    stack.lock        which process uses it        processes.json   what it runs, for the start after a crash
    ports.json        ports of the last start      endpoints.json   where it is, while it runs (0600)
    neo4j-password    generated (0600)             s3-keys.json     generated (0600)
    neo4j/  neo4j-conf/  s3/  logs/  warm/
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local import neo4j as neo4j_process
from graphsvc.local import s3 as s3_process
from graphsvc.local.artifacts import NEO4J_VERSION, fetch_neo4j
from graphsvc.local.endpoints import StackEndpoints, publish_endpoints, running_endpoints, withdraw_endpoints
from graphsvc.local.files import choose_ports, make_private_directory, write_private
from graphsvc.local.neo4j import Neo4j, StackProfile
from graphsvc.local.progress import StackProgress
from graphsvc.local.s3 import S3Server
from graphsvc.local.supervisor import StateLock, Supervisor, end_recorded
from graphsvc.settings import Settings

__all__ = ["LocalStack", "StackEndpoints", "StackProfile", "running_endpoints"]


ARCHIVE_DELAY_S = 120.0
"""Making the archive takes a core for most of a minute: not while statements are planned and a repository is read."""


class LocalStack:
    """Neo4j and an S3 server on loopback, with their data in ``settings.state_dir``.

    A store that the settings name elsewhere (``neo4j_uri``, ``s3_endpoint``) is not started; its address is passed on.
    Whatever ends this process, the servers end with it (see ``graphsvc.local.watchdog``).

    Args:
        settings: directories, ports, memory.
        profile: what Neo4j is tuned for.
    """

    def __init__(self, settings: Settings, *, profile: StackProfile = StackProfile.STANDARD) -> None:
        self._settings = settings
        self._profile = profile
        # Absolute: it is part of the servers' command lines, by which they are known again.
        self.state_dir = settings.state_dir.expanduser().absolute()
        self._cache_dir = settings.cache_dir.expanduser().absolute()
        self._guard = threading.RLock()
        self._lock: StateLock | None = None
        self._supervisor: Supervisor | None = None
        self._neo4j: Neo4j | None = None
        self._endpoints: StackEndpoints | None = None
        self._archiving: threading.Timer | None = None

    @property
    def endpoints(self) -> StackEndpoints | None:
        """The addresses while it runs, else None."""
        return self._endpoints

    @property
    def pids(self) -> dict[str, int]:
        """The pids of what runs, by name: neo4j, s3, watchdog, and neo4j-archive while the class archive is made."""
        if self._supervisor is None:
            return {}
        return {**self._supervisor.pids, "watchdog": self._supervisor.pid}

    def start(self, progress: StackProgress | None = None) -> StackEndpoints:
        """The endpoints, once every server is ready; at once when it runs already.

        Args:
            progress: what to tell about it.

        Raises:
            LocalFault: STATE_DIR_IN_USE when another stack uses the state directory; ARTIFACT_UNAVAILABLE and
                ARTIFACT_HASH_MISMATCH from fetching Neo4j; LOCAL_STACK_FAILED when a server does not come up. Nothing
                is left running then.
        """
        progress = progress or StackProgress()
        with self._guard:
            if self._endpoints is not None:
                return self._endpoints
            try:
                self._endpoints = self._start(progress)
            except BaseException:
                # Ctrl-C too.
                self.stop()
                raise
            return self._endpoints

    def _start(self, progress: StackProgress) -> StackEndpoints:
        settings = self._settings
        make_private_directory(self.state_dir)
        (self.state_dir / "logs").mkdir(exist_ok=True)
        self._lock = StateLock(self.state_dir)
        fd = self._lock.acquire(progress)
        end_recorded(self.state_dir, progress)

        with_neo4j, with_s3 = settings.neo4j_uri is None, settings.s3_endpoint is None
        jars = fetch_neo4j(self._cache_dir, progress) if with_neo4j else []
        ports = self._choose_ports(with_neo4j, with_s3)
        self._supervisor = supervisor = Supervisor(self.state_dir, fd)
        begun = time.monotonic()

        s3: S3Server | None = None
        if with_s3:
            s3 = S3Server(state_dir=self.state_dir, port=ports["s3_port"])
            s3.prepare()
            supervisor.start(s3.process())

        password = settings.neo4j_password.get_secret_value() if settings.neo4j_password else ""
        if with_neo4j:
            self._neo4j = neo4j = Neo4j(
                state_dir=self.state_dir,
                cache_dir=self._cache_dir,
                jars=jars,
                bolt_port=ports["bolt_port"],
                http_port=ports["http_port"],
                heap_mb=settings.neo4j_heap_mb,
                pagecache_mb=settings.neo4j_pagecache_mb,
                profile=self._profile,
            )
            password = neo4j.prepare(progress)
            progress.say(f"Starting Neo4j {NEO4J_VERSION}")
            supervisor.start(neo4j.process())
            neo4j.wait_until_ready(password, lambda: supervisor.exit_code(neo4j_process.NAME), progress)
            progress.say(f"  up in {time.monotonic() - begun:.1f} s at {neo4j.uri}")
            self._make_archive_later(neo4j)
        if s3 is not None:
            s3.wait_until_ready(lambda: supervisor.exit_code(s3_process.NAME))

        endpoints = StackEndpoints(
            neo4j_uri=self._neo4j.uri if self._neo4j else cast(str, settings.neo4j_uri),
            neo4j_user=neo4j_process.USER if self._neo4j else settings.neo4j_user,
            neo4j_password=password,
            http_url=self._neo4j.http_url if self._neo4j else None,
            s3_endpoint=s3.endpoint if s3 else cast(str, settings.s3_endpoint),
            s3_access_key=s3.access_key if s3 else settings.s3_access_key or "",
            s3_secret_key=(
                s3.secret_key if s3 else settings.s3_secret_key.get_secret_value() if settings.s3_secret_key else ""
            ),
            neo4j_database="neo4j" if self._neo4j else settings.neo4j_database,
        )
        publish_endpoints(self.state_dir, endpoints)
        return endpoints

    def _choose_ports(self, with_neo4j: bool, with_s3: bool) -> dict[str, int]:
        path = self.state_dir / "ports.json"
        remembered: dict[str, int] = {}
        with contextlib.suppress(OSError, ValueError):
            remembered = {str(k): int(v) for k, v in json.loads(path.read_text(encoding="utf-8")).items()}
        configured: dict[str, int] = {}
        if with_neo4j:
            configured |= {"bolt_port": self._settings.bolt_port, "http_port": self._settings.http_port}
        if with_s3:
            configured["s3_port"] = self._settings.s3_port
        ports = choose_ports(configured, remembered)
        write_private(path, json.dumps(remembered | ports) + "\n")
        return ports

    def _make_archive_later(self, neo4j: Neo4j) -> None:
        """Begins making the class archive once the start is long over, if there is none. A faster start is no must."""

        def make() -> None:
            with self._guard, contextlib.suppress(LocalFault, OSError):
                if self._supervisor is not None and self._endpoints is not None:
                    spec = neo4j.archive_process()
                    if spec is not None:
                        self._supervisor.start(spec)

        self._archiving = threading.Timer(ARCHIVE_DELAY_S, make)
        self._archiving.daemon = True
        self._archiving.start()

    def check(self) -> None:
        """Returns while every server runs.

        Raises:
            LocalFault: LOCAL_STACK_FAILED when one has ended by itself; the message names its log.
        """
        supervisor = self._supervisor
        if supervisor is None or self._endpoints is None:
            return
        for name in (neo4j_process.NAME, s3_process.NAME):
            started = name in supervisor.pids or supervisor.exit_code(name) is not None
            code = supervisor.exit_code(name) if started else None
            if code is not None:
                raise LocalFault(
                    ErrorReason.LOCAL_STACK_FAILED,
                    f"{name} ended by itself (code {code}): read {self.state_dir / 'logs' / name}.log,"
                    " then start again",
                )

    def stop(self) -> None:
        """Returns when every server is gone. Safe to call twice, and from another thread."""
        with self._guard:
            self._endpoints = None
            if self._archiving is not None:
                self._archiving.cancel()
            if self._supervisor is not None:
                withdraw_endpoints(self.state_dir)
                self._supervisor.stop()
                self._supervisor = None
            if self._neo4j is not None:
                with contextlib.suppress(OSError):
                    self._neo4j.forget_class_list()
                self._neo4j = None
            if self._lock is not None:
                self._lock.release()
                self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def is_running(state_dir: Path) -> bool:
    """Whether a stack runs on this state directory."""
    return running_endpoints(state_dir) is not None
