"""Locates the measured programs, and is the only place that knows the contents of our run folder.
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
        """Returns build/release/bin/<name>, or None with a message on the console; then only the peers are measured."""
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
    """Returns our summary.json as a dict, {} while it is absent or half written."""
    try:
        return json.loads((pathlib.Path(run_folder) / "summary.json").read_text())
    except (OSError, ValueError):
        return {}


def first_step_unix(run_folder, running, deadline):
    """Returns the unix time at which a run's first step shows, to the millisecond, or None when it ends or `deadline`
    passes.

    It is observed from outside: rank 0 writes a line to metrics.jsonl after every step, and a step ends on all ranks
    together (its gradients are summed). `running()` returns whether the run still continues; deadline is in
    time.monotonic().
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
    """Follows our metrics.jsonl: new_steps() returns the `time/batch` of each training line since the last call.

    A resumed run may cut the file back to its checkpoint; reading then continues from the new end.
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
