"""A Bolt handshake over a plain socket: enough to know that a database listens, without a driver.

Source: design.md (only ``graphsvc.graph`` imports the driver); the Bolt protocol's handshake, four version proposals.
"""

from __future__ import annotations

import socket

_MAGIC = bytes.fromhex("6060b017")
_PROPOSALS = bytes.fromhex("00080805" + "00020404" + "00000000" + "00000000")
"""5.8 down to 5.0, 4.4 down to 4.2, nothing, nothing."""


def bolt_version(host: str, port: int, timeout_s: float = 2.0) -> tuple[int, int] | None:
    """The Bolt version (major, minor) that the server picks, or None when none answers.

    Args:
        host: host name or address.
        port: TCP port.
        timeout_s: seconds to wait for the connection and for the answer.
    """
    try:
        with socket.create_connection((host, port), timeout=timeout_s) as connection:
            connection.settimeout(timeout_s)
            connection.sendall(_MAGIC + _PROPOSALS)
            answer = b""
            while len(answer) < 4:
                chunk = connection.recv(4 - len(answer))
                if not chunk:
                    return None
                answer += chunk
    except OSError:
        return None
    minor, major = answer[2], answer[3]
    return (major, minor) if major else None
