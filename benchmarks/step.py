"""Bench `step`: milliseconds a step of a tiny MLP (64-64-64-10, batch 16, AdamW), 1 rank, 1 thread.

Goal: our trainer within 20 us of the raw C++ loop with the same optimizer. Each program prints JSON lines
{"name": ..., "ms_per_step": median, "blocks": [each block's]}.
SPDX-License-Identifier: Apache-2.0
"""

import json

import programs
from bounded_job import run_to_exit

NAME = "step"
TITLE = "One step of an MLP 64-64-64-10, batch 16, AdamW, 1 rank, 1 thread (milliseconds)"
UNIT, REFERENCE = "ms", "pytorch_adamw_fused"
LIMIT_S = 300


def run(options):
    where = options.programs
    blocks, steps = options.blocks, options.steps
    commands = [
        [where.torch / "python", programs.SCRIPTS / "torch_mlp_step.py", blocks, steps],
        [where.mosaic / "python", programs.SCRIPTS / "composer_mlp_step.py", blocks, steps],
    ]
    binary = where.ours("step_overhead")
    if binary:
        commands.insert(0, [binary, blocks, steps])
    samples = {}
    for round_ in range(options.repeats):
        for argv in commands:
            _, output = run_to_exit(argv, LIMIT_S)
            for line in output.splitlines():
                if line.startswith("{"):
                    row = json.loads(line)
                    samples.setdefault(row["name"], []).append(row["ms_per_step"])
        print(f"step, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.3f} ms" for k, v in samples.items()))
    facts = {}
    if "trainer" in samples and "raw_loop_loading" in samples:
        pairs = zip(samples["trainer"], samples["raw_loop_loading"])
        facts["trainer_minus_raw_loop_loading_us"] = [round(1e3 * (ours - raw), 1) for ours, raw in pairs]
    return samples, facts
