"""Bench `elastic`: the cost of `determinism: elastic` for a training step of the small GPT (benchmarks/gpt_small.yaml),
global batch 16, on 1 and 2 ranks, unsharded and fully sharded, with 8 virtual shards and without. Both use one thread
per rank.
SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import statistics
import tempfile

import programs
from bounded_job import run_to_exit

NAME = "elastic"
TITLE = "A step of a GPT of 4 layers and 128 wide, global batch 16, one thread a rank (milliseconds)"
UNIT, REFERENCE = "ms", "1 rank, NO_SHARD, none"
LIMIT_S, STEPS = 300, 120

JOB = programs.REPOSITORY / "benchmarks" / "gpt_small.yaml"


def step_ms(binary, ranks, strategy, determinism):
    """Returns the median of the steps' own clock, without the first 20."""
    with tempfile.TemporaryDirectory(prefix="bench-elastic-") as folder:
        run_to_exit([binary, "-n", ranks, JOB, f"run_folder={folder}/run", f"max_duration={STEPS}ba",
                     "global_train_batch_size=16",
                     "save_interval=0ba", f"+fsdp_config.sharding_strategy={strategy}", f"determinism={determinism}",
                     "callbacks.speed_monitor.window_size=1"],
                    LIMIT_S, cwd=programs.REPOSITORY, env={"OMP_NUM_THREADS": "1"})
        rows = [json.loads(line) for line in (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [row["throughput/batches_per_sec"] for row in rows if "throughput/batches_per_sec" in row]
    return 1e3 / statistics.median(rates[20:])


def world(ranks, strategy):
    return f"{ranks} rank{'s' if ranks > 1 else ''}, {strategy}"


def run(options):
    binary = options.programs.ours("composer")
    samples = {}
    worlds = [(ranks, strategy) for ranks in (1, 2) for strategy in ("NO_SHARD", "FULL_SHARD")]
    for round_ in range(options.repeats if binary else 0):
        for ranks, strategy in worlds:
            for determinism in ("none", "elastic"):
                name = f"{world(ranks, strategy)}, {determinism}"
                samples.setdefault(name, []).append(step_ms(binary, ranks, strategy, determinism))
        print(f"{NAME}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.1f} ms" for k, v in samples.items()))
    facts = {}
    for name in (world(*each) for each in worlds):
        if f"{name}, elastic" in samples:
            ratio = statistics.median(samples[f"{name}, elastic"]) / statistics.median(samples[f"{name}, none"])
            facts[f"{name}: elastic / none"] = round(ratio, 3)
    return samples, facts
