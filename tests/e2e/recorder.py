"""Stands between a client and its MCP server and writes down every line: `recorder.py LOG COMMAND...`.

Needs nothing but the standard library, so that the server starts as fast as without it.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import IO


class Recorder:
    """Copies lines and keeps them as `{"at": seconds, "from": ..., "line": ...}`; used by two threads."""

    def __init__(self, log: IO[str]) -> None:
        self._log = log
        self._lock = threading.Lock()

    def copy(self, sender: str, source: IO[bytes], target: IO[bytes]) -> None:
        """Copy until the source ends, then close the target; a target that is gone ends it too."""
        try:
            with target:
                for line in source:
                    self.note(sender, line)
                    target.write(line)
                    target.flush()
        except BrokenPipeError:
            return

    def note(self, sender: str, line: bytes) -> None:
        """Write a record down before anything else happens."""
        record = {"at": time.monotonic(), "from": sender, "line": line.decode(errors="replace")}
        with self._lock:
            self._log.write(json.dumps(record) + "\n")
            self._log.flush()


def main(log: Path, command: list[str]) -> int:
    """Run the server to its end; its exit code."""
    pipe = subprocess.PIPE
    with log.open("a", encoding="utf-8") as file, subprocess.Popen(command, stdin=pipe, stdout=pipe) as server:
        if server.stdin is None or server.stdout is None:
            raise RuntimeError("The server was started without pipes.")
        recorder = Recorder(file)
        recorder.note("start", b"")
        upstream = (recorder, "client", sys.stdin.buffer, server.stdin)
        threading.Thread(target=Recorder.copy, args=upstream, daemon=True).start()
        recorder.copy("server", server.stdout, sys.stdout.buffer)
        code = server.wait()
        recorder.note("end", str(code).encode())
        return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
