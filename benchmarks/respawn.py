"""Bench `respawn`: from kill -9 of one of 2 workers to both new workers attached. Goal: at most 500 ms.

Ours: until both workers of the new generation beat on their progress pages (contract/progress_page.h), which they do
when they attach to their launcher, with LibTorch loaded; small GPT, one job that is killed repeatedly. torchrun: until
both ranks of the next attempt have imported torch.distributed and are about to connect; a fresh job for each kill.
Polled every millisecond.
SPDX-License-Identifier: Apache-2.0
"""

import os
import pathlib
import random
import signal
import struct
import tempfile
import time

import programs
from bounded_job import BoundedJob, free_port
from soak import our_workers, wait_for

NAME = "respawn"
TITLE = "kill -9 of a worker, to both new workers attached, 2 ranks (seconds)"
UNIT, REFERENCE = "s", "torchrun"
LIMIT_S = 60
POLL_S = 0.001
OURS_A_ROUND = 4
HEARTBEAT_OFFSET = 40  # from ProgressPage::Layout

JOB = programs.REPOSITORY / "benchmarks" / "gpt_small.yaml"


def attached(temp, but_not):
    """Returns the names of the pages (progress-<attempt>-<local rank>) on which a worker has beaten, except those in
    `but_not`."""
    found = set()
    for page in pathlib.Path(temp).glob("composer-*/progress-*"):
        try:
            head = page.read_bytes()[:HEARTBEAT_OFFSET + 8]
        except OSError:
            continue  # it was removed meanwhile
        if page.name not in but_not and len(head) == HEARTBEAT_OFFSET + 8 and struct.unpack_from(
                "<q", head, HEARTBEAT_OFFSET)[0] > 0:
            found.add(page.name)
    return found


def ours(binary, kills, rng):
    seconds = []
    with tempfile.TemporaryDirectory(prefix="bench-respawn-") as folder:
        run_folder = pathlib.Path(folder) / "run"
        argv = [binary, "-n", 2, "--max-restarts", 1000, JOB, f"run_folder={run_folder}", "max_duration=10000000ba"]
        log = programs.StepLog(run_folder)
        with BoundedJob(argv, cwd=programs.REPOSITORY, env={"TMPDIR": folder}) as job:
            for _ in range(kills):
                if not wait_for(log.new_steps, job, LIMIT_S):
                    raise RuntimeError(f"respawn: ours makes no step\n{job.output()}")
                time.sleep(rng.uniform(0.2, 0.6))
                log.new_steps()
                before = attached(folder, set())
                os.kill(rng.choice(our_workers(run_folder)), signal.SIGKILL)
                killed = time.monotonic()
                while len(attached(folder, before)) < 2:
                    if time.monotonic() > killed + LIMIT_S or not job.running():
                        raise RuntimeError(f"respawn: ours did not come back\n{job.output()}")
                    time.sleep(POLL_S)
                seconds.append(time.monotonic() - killed)
    return seconds


def torchrun(program, rng):
    with tempfile.TemporaryDirectory(prefix="bench-respawn-") as folder:
        argv = [program, "--master-port", free_port(), "--nproc-per-node", 2, "--max-restarts", 3,
                programs.SCRIPTS / "torch_attach_worker.py"]
        with BoundedJob(argv, env={"BENCH_OUT": folder}) as job:
            here = lambda attempt: sorted(pathlib.Path(folder).glob(f"attached.{attempt}.?"))
            if not wait_for(lambda: len(here(0)) == 2, job, LIMIT_S):
                raise RuntimeError(f"respawn: torchrun did not start\n{job.output()}")
            time.sleep(rng.uniform(0.2, 0.6))
            os.kill(int(rng.choice(here(0)).read_text()), signal.SIGKILL)
            killed = time.monotonic()
            while len(here(1)) < 2:
                if time.monotonic() > killed + LIMIT_S or not job.running():
                    raise RuntimeError(f"respawn: torchrun did not come back\n{job.output()}")
                time.sleep(POLL_S)
            return time.monotonic() - killed


def run(options):
    rng = random.Random(options.seed)
    binary = options.programs.ours("composer")
    samples = {"ours": [], "torchrun": []}
    for round_ in range(options.repeats):
        if binary:
            samples["ours"] += ours(binary, OURS_A_ROUND, rng)
        samples["torchrun"].append(torchrun(options.programs.torch / "torchrun", rng))
        print(f"respawn, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.3f} s" for k, v in samples.items() if v))
    return samples
