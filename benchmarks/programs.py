"""Where the measured programs are, and the one place that knows what our run folder says.

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import time

REPOSITORY = pathlib.Path(__file__).resolve().parent.parent
SCRIPTS = REPOSITORY / "benchmarks" / "peers"


class Programs:
    def __init__(self, build):
        self.bin = pathlib.Path(build).resolve() / "bin"
        peers = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers"))
        self.torch, self.mosaic = peers / "torch211" / "bin", peers / "mosaic" / "bin"

    def ours(self, name):
        """build/release/bin/<name>, or None with a word on the console: then only the peers are measured."""
        path = self.bin / name
        if path.exists():
            return path
        print(f"benchmarks: {path} is not there, so our side is skipped (./dev build)")
        return None

    def check_peers(self):
        for path in (self.torch / "torchrun", self.mosaic / "composer"):
            if not path.exists():
                raise SystemExit(f"benchmarks: {path} is missing: run tools/peers_setup.sh")


def summary(run_folder):
    """Our summary.json as a dict; {} while it is absent or half written."""
    try:
        return json.loads((pathlib.Path(run_folder) / "summary.json").read_text())
    except (OSError, ValueError):
        return {}


def first_step_unix(run_folder, running, deadline):
    """The unix time at which a run's first step shows, to the millisecond; None when it ends or `deadline` passes.

    Seen from outside: rank 0 writes a line to metrics.jsonl after every step, and a step ends on all ranks together
    (its gradients are summed). `running()` says whether the run still goes on; deadline is of time.monotonic().
    """
    log = StepLog(run_folder)
    while time.monotonic() < deadline:
        alive = running()
        if log.new_steps():
            return time.time()
        if not alive:
            return None
        time.sleep(0.001)
    return None


class StepLog:
    """Follows our metrics.jsonl: new_steps() gives the `time/batch` of each training line since the last call.

    A resumed run may cut the file back to its checkpoint; then reading goes on from the new end.
    """

    def __init__(self, run_folder):
        self.path = pathlib.Path(run_folder) / "metrics.jsonl"
        self.offset = 0

    def new_steps(self):
        try:
            size = self.path.stat().st_size
            if size < self.offset:
                self.offset = size
            if size == self.offset:
                return []
            with self.path.open("rb") as log:
                log.seek(self.offset)
                data = log.read()
        except OSError:
            return []
        whole = data[: data.rfind(b"\n") + 1]
        self.offset += len(whole)
        lines = [line for line in whole.splitlines() if b"loss/train/total" in line]
        return [int(json.loads(line)["time/batch"]) for line in lines]
