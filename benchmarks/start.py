"""Bench `start`: from exec to the end of the first optimizer step, small GPT, 2 ranks. Goal: at most 1/5 of torchrun's.
SPDX-License-Identifier: Apache-2.0
"""

import pathlib
import tempfile

import programs
from bounded_job import BoundedJob, free_port

NAME = "start"
TITLE = "Exec to the end of the first optimizer step, GPT of 4 layers and 128 wide, 2 ranks on Gloo (seconds)"
UNIT, REFERENCE = "s", "torchrun"
LIMIT_S = 120

JOB = programs.REPOSITORY / "benchmarks" / "gpt_small.yaml"


def ours(binary):
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder:
        argv = [binary, "-n", "2", JOB, f"run_folder={folder}/run", "max_duration=1ba"]
        with BoundedJob(argv, cwd=programs.REPOSITORY) as job:
            at = programs.first_step_unix(f"{folder}/run", job.running, job.start + LIMIT_S)
            if at is None:
                raise RuntimeError(f"ours made no first step\n{job.output()}")
            if job.wait(LIMIT_S) is None or job.exit_code != 0:
                raise RuntimeError(f"ours: exit {job.exit_code}\n{job.output()}")
            return at - job.start_unix


def peer(argv):
    with tempfile.TemporaryDirectory(prefix="bench-start-") as folder:
        with BoundedJob(argv, env={"BENCH_OUT": folder}) as job:
            if job.wait(LIMIT_S) is None or job.exit_code != 0:
                raise RuntimeError(f"{job.argv}: exit {job.exit_code}\n{job.output()}")
            ranks = [float(path.read_text()) for path in pathlib.Path(folder).glob("first_step.*")]
            if len(ranks) != 2:
                raise RuntimeError(f"{job.argv}: {len(ranks)} ranks made a step\n{job.output()}")
            return max(ranks) - job.start_unix


def run(options):
    where = options.programs
    binary = where.ours("composer")
    samples = {"ours": [], "torchrun": [], "python composer": []}
    for round_ in range(options.repeats):
        if binary:
            samples["ours"].append(ours(binary))
        samples["torchrun"].append(peer([where.torch / "torchrun", "--master-port", free_port(), "--nproc-per-node",
                                         2, programs.SCRIPTS / "torch_gpt_start.py"]))
        samples["python composer"].append(peer([where.mosaic / "composer", "--master_port", free_port(), "-n", 2,
                                                programs.SCRIPTS / "composer_gpt_start.py"]))
        print(f"start, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.3f} s" for k, v in samples.items() if v))
    return samples
