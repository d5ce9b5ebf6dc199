"""Bench `sharding`: a training step of two GPTs on 2 ranks of one host by DDP and sharded, ours beside torch's DDP,
fully_shard, its ZeRO-2 (no reshard after forward) and FSDP1: the same torch 2.11, CPU, one thread per rank, float32,
fused AdamW.

Ours is the whole trainer with the real binaries (loader, metrics, log lines, the loss of every step); the peer is a
bare loop over random tokens.
SPDX-License-Identifier: Apache-2.0
"""

import json
import pathlib
import statistics
import tempfile

import programs
from bounded_job import run_to_exit

NAME = "sharding"
TITLE = "A training step on 2 ranks, DDP and sharded (milliseconds; the slower rank)"
UNIT, REFERENCE = "ms", "0.9M torch fully_shard"
LIMIT_S, RANKS, WARM_UP = 300, 2, 5

JOB = programs.REPOSITORY / "benchmarks" / "gpt_small.yaml"
# layers, width, heads, context, samples per rank, steps
SHAPES = {"0.9M": (4, 128, 4, 64, 4, 60), "10.9M": (6, 384, 6, 128, 8, 12)}
OURS = {"DDP": "NO_SHARD", "ZeRO-2": "SHARD_GRAD_OP", "FULL_SHARD": "FULL_SHARD"}
THEIRS = {"DDP": "ddp", "ZeRO-2": "zero2", "fully_shard": "fully_shard", "FSDP1": "fsdp1"}
PAIRS = {"DDP": ("DDP",), "ZeRO-2": ("ZeRO-2",), "FULL_SHARD": ("fully_shard", "FSDP1")}


def our_steps(binary, strategy, shape):
    """Milliseconds of each step after the first ones."""
    layers, width, heads, context, samples, steps = shape
    with tempfile.TemporaryDirectory(prefix="bench-sharding-") as folder:
        run_to_exit([binary, "-n", RANKS, JOB, f"run_folder={folder}/run", f"max_duration={steps + WARM_UP}ba",
                     f"model.n_layers={layers}", f"model.d_model={width}",
                     f"model.n_heads={heads}", f"model.max_seq_len={context}",
                     f"train_dataloader.max_seq_len={context}", f"global_train_batch_size={samples * RANKS}",
                     "save_interval=0ba", "callbacks.speed_monitor.window_size=1",
                     f"+fsdp_config.sharding_strategy={strategy}"],
                    LIMIT_S, cwd=programs.REPOSITORY, env={"OMP_NUM_THREADS": "1"})
        rows = [json.loads(line) for line in (pathlib.Path(folder) / "run" / "metrics.jsonl").read_text().splitlines()]
    rates = [row["throughput/batches_per_sec"] for row in rows if "throughput/batches_per_sec" in row]
    return [1e3 / rate for rate in rates[WARM_UP:]]


def their_steps(torchrun, way, shape):
    """The same of the slower rank."""
    argv = [torchrun, "--nproc_per_node", RANKS, "--standalone", programs.SCRIPTS / "torch_fsdp.py", way, *shape]
    try:
        _, output = run_to_exit(argv, LIMIT_S, env={"OMP_NUM_THREADS": "1"})
    except RuntimeError as error:  # torch's ranks sometimes abort (SIGABRT): tries once more
        print(f"{NAME}: {way} failed and is run again: {str(error).splitlines()[0]}")
        _, output = run_to_exit(argv, LIMIT_S, env={"OMP_NUM_THREADS": "1"})
    for line in output.splitlines():
        if line.startswith("{"):
            return json.loads(line)["ms"]
    raise SystemExit(f"{NAME}: torch_fsdp.py {way} printed no times:\n{output}")


def run(options):
    binary = options.programs.ours("composer")
    samples = {}
    for round_ in range(options.repeats):
        for size, shape in SHAPES.items():
            for name, strategy in OURS.items() if binary else ():
                samples.setdefault(f"{size} {name}", []).append(statistics.median(our_steps(binary, strategy, shape)))
            for name, way in THEIRS.items():
                steps = their_steps(options.programs.torch / "torchrun", way, shape)
                samples.setdefault(f"{size} torch {name}", []).append(statistics.median(steps))
        print(f"{NAME}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.1f}" for k, v in samples.items()))
    facts = {}
    for size in SHAPES if binary else ():
        for ours, peers in PAIRS.items():
            for peer in peers:
                ratio = statistics.median(samples[f"{size} torch {peer}"]) / statistics.median(
                    samples[f"{size} {ours}"])
                facts[f"{size}: torch {peer} / {ours}"] = round(ratio, 2)
    return samples, facts
