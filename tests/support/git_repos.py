"""Small git repositories made for a test."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


class GitRepo:
    """A repository in a directory, with commits at fixed, growing times."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)
        self._hours = 0
        self.git("init", "-q", "-b", "main")

    def git(self, *arguments: str) -> str:
        date = f"2026-01-01T{self._hours // 60:02d}:{self._hours % 60:02d}:00+00:00"
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")} | {
            "GIT_AUTHOR_NAME": "Ada Lovelace",
            "GIT_AUTHOR_EMAIL": "ada@example.com",
            "GIT_COMMITTER_NAME": "Ada Lovelace",
            "GIT_COMMITTER_EMAIL": "ada@example.com",
            "GIT_AUTHOR_DATE": date,
            "GIT_COMMITTER_DATE": date,
            "GIT_CONFIG_GLOBAL": "/dev/null",
            "GIT_CONFIG_NOSYSTEM": "1",
        }
        done = subprocess.run(
            ["git", "-c", "protocol.file.allow=always", *arguments],
            cwd=self.path, env=environment, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip()

    def write(self, files: dict[str, str | bytes]) -> None:
        for name, content in files.items():
            file = self.path / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)

    def commit(self, message: str, files: dict[str, str | bytes] | None = None, *, remove: tuple[str, ...] = ()) -> str:
        """The id of a commit with these files written or removed."""
        self._hours += 1
        self.write(files or {})
        for name in remove:
            self.git("rm", "-q", name)
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.git("rev-parse", "HEAD")
