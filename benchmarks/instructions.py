"""Bench `instructions`: machine instructions per step on the tiny MLP, counted by callgrind, of the raw C++ loop and
our trainer: bare, as a default job, and with five monitors. Counts hardly vary from run to run or with the machine's
load, so they are the regression figure of the step; `step` measures wall time.

A program runs twice, with STEPS and twice STEPS; the difference excludes the start-up.
SPDX-License-Identifier: Apache-2.0
"""

import re
import shutil
import subprocess
import tempfile

from bounded_job import run_to_exit

NAME = "instructions"
TITLE = "Instructions a step of an MLP 64-64-64-10, batch 16, AdamW, 1 rank, 1 thread (thousands)"
UNIT, REFERENCE = "thousand instructions", "raw_loop_loading"
STEPS, LIMIT_S = 200, 900


def count(binary, program, steps):
    with tempfile.TemporaryDirectory() as folder:
        # Debian's valgrind (3.19) rejects clang-19's debug information.
        stripped = f"{folder}/step_overhead"
        subprocess.run(["strip", "--strip-debug", "-o", stripped, binary], check=True)
        _, output = run_to_exit(["valgrind", "--tool=callgrind", f"--callgrind-out-file={folder}/out", stripped, 1,
                                 steps, "mlp", program], LIMIT_S)
    found = re.search(r"Collected : (\d+)", output)
    if not found:
        raise RuntimeError(f"callgrind counted nothing for {program}:\n{output[-2000:]}")
    return int(found.group(1))


def run(options):
    binary = options.programs.ours("step_overhead")
    if not binary:
        raise RuntimeError("step_overhead is not built")
    if not shutil.which("valgrind"):
        raise RuntimeError("valgrind is not installed (apt-get install valgrind)")
    samples = {}
    for program in ("raw_loop", "raw_loop_loading", "trainer_bare", "trainer", "trainer_monitors",
                    "trainer_idle_profiler"):
        thousands = (count(binary, program, 2 * STEPS) - count(binary, program, STEPS)) / STEPS / 1e3
        samples[program] = [thousands]
        print(f"instructions: {program} {thousands:.1f} thousand a step")
    return samples
