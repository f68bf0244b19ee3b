"""Not trusted: runs edited kernel files in a process of its own: one that dies or hangs is an answer, too."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

from neptune_verified.mutants.text_seen import CRASHES, Seen

SECONDS = 20.0


class Oracle:
    """``ask`` says what a file does. Use it as a context manager."""

    def __init__(self) -> None:
        self.process: Any = None
        self.pipe: Any = None

    def __enter__(self) -> Oracle:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stop()

    def ask(self, program: str, source: str) -> Seen:
        if self.process is None:
            self._start()
        try:
            self.pipe.send((program, source))
            if not self.pipe.poll(SECONDS):
                self._stop()
                return Seen(CRASHES, f"no answer within {SECONDS:.0f} s")
            status, where = self.pipe.recv()
        except (EOFError, OSError):
            code = self.process.exitcode
            self._stop()
            return Seen(CRASHES, f"the process ended with code {code}")
        if status == "error":
            raise RuntimeError(f"{program}: {where}")
        return Seen(status, where)

    def _start(self) -> None:
        os.environ["TRITON_INTERPRET"] = "1"  # read by the new process when it imports triton
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other,), daemon=True)
        self.process.start()
        other.close()

    def _stop(self) -> None:
        if self.process is not None:
            self.pipe.close()
            self.process.terminate()
            self.process.join(5)
            if self.process.is_alive():
                self.process.kill()
            self.process = self.pipe = None


def _serve(pipe: Any) -> None:
    import torch

    from neptune_verified.mutants.text_run import runner

    torch.set_num_threads(1)
    while True:
        try:
            program, source = pipe.recv()
        except EOFError:
            return
        try:
            seen = runner(program)
        except Exception as e:
            pipe.send(("error", f"{type(e).__name__}: {e}"))
            continue
        found = seen.look(source)
        pipe.send((found.status, found.where))
