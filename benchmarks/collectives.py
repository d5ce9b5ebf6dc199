"""Bench `collectives`: all-reduce, all-gather and reduce-scatter of 4 KB to 25 MB among the ranks of one host, by our
shared memory, our ordered sums over Gloo, c10d's Gloo called from C++, and torch.distributed with Gloo.
SPDX-License-Identifier: Apache-2.0
"""

import statistics

import programs
from bounded_job import json_rows

NAME = "collectives"
TITLE = "Collectives between 2 processes of one host, float32 (microseconds; wall time of a rank)"
UNIT, REFERENCE = "us", "torch_gloo all-reduce 4 KB"
LIMIT_S, RANKS = 300, 2
MEANS = ("shared_memory", "gloo", "raw_gloo")


def size_name(size):
    return f"{size >> 20} MB" if size >= 1 << 20 else f"{size >> 10} KB"


def ratios(samples, cpu):
    """Returns how many times as long torch takes, by wall time and by CPU time of all ranks."""
    facts = {}
    for name in samples:
        means, what = name.split(" ", 1)
        peer = f"torch_gloo {what}"
        if means != "torch_gloo" and peer in samples:
            wall = statistics.median(samples[peer]) / statistics.median(samples[name])
            busy = statistics.median(cpu[peer]) / statistics.median(cpu[name])
            facts[f"torch_gloo / {name}"] = f"{wall:.2f} (CPU time {busy:.2f})"
    return facts


def run(options):
    where = options.programs
    binary = where.ours("collectives")
    commands = [[binary, means, RANKS, options.steps] for means in MEANS] if binary else []
    commands.append([where.torch / "python", programs.SCRIPTS / "torch_collectives.py", RANKS, options.steps])
    samples, cpu = {}, {}
    for round_ in range(options.repeats):
        for argv in commands:
            for row in json_rows(argv, LIMIT_S):
                name = f"{row['name']} {row['collective']} {size_name(row['bytes'])}"
                samples.setdefault(name, []).append(row["us"])
                cpu.setdefault(name, []).append(row["cpu_us"])
        print(f"{NAME}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in samples.items()
                                                          if "all-reduce" in k))
    return samples, ratios(samples, cpu)
