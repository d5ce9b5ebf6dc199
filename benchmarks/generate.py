"""Bench `generate`: greedy generation with a GPT of 10.9 million parameters on one thread, with a KV cache and without,
ours beside a plain torch loop in Python and, when it is available, Hugging Face's transformers (COMPOSER_TRANSFORMERS:
the folder in which it is installed).
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import statistics

import programs
from bounded_job import run_to_exit

NAME = "generate"
TITLE = "Greedy generation, GPT of 10.9M parameters, prompt of 32, 48 new tokens, 1 thread (new tokens a second of all rows; more is better)"
UNIT, REFERENCE = "tokens/s", "torch loop, cache, 1 rows"
LIMIT_S = 300
# layers, width, heads, context, prompt, new tokens, rows
SHAPE = (6, 384, 6, 128, 32, 48, 1, 8)


def table(summary):
    base = summary.get(REFERENCE, {}).get("median")
    lines = [f"| program | median {UNIT} | lowest | highest | runs | it / {REFERENCE} |", "|---|---|---|---|---|---|"]
    for name, row in summary.items():
        figures = " | ".join(f"{row[key]:.0f}" for key in ("median", "low", "high"))
        lines.append(
            f"| {name} | {figures} | {row['count']} | {format(row['median'] / base, '.2f') if base else '-'} |")
    return "\n".join(lines)


def ratios(samples, cpu):
    """Compares by wall time and by CPU time; other programs on the machine disturb the latter less."""
    def ratio(a, b):
        return " (CPU time ".join(f"{statistics.median(s[a]) / statistics.median(s[b]):.2f}"
                                  for s in (samples, cpu)) + ")"

    facts = {}
    for name in samples:
        who, way = name.split(", ", 1)
        if who != "ours" and f"ours, {way}" in samples:
            facts[f"ours / {name}"] = ratio(f"ours, {way}", name)
        elif who == "ours" and way.startswith("cache"):
            facts[f"{name} / no {way}"] = ratio(name, f"ours, no {way}")
    return facts


def run(options):
    where = options.programs
    binary = where.ours("generate")
    commands = [[binary, *SHAPE]] if binary else []
    commands.append([where.torch / "python", programs.SCRIPTS / "torch_generate.py", *SHAPE])
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.environ.get("COMPOSER_TRANSFORMERS", "")}
    samples, cpu = {}, {}
    for round_ in range(options.repeats):
        for argv in commands:
            _, output = run_to_exit(argv, LIMIT_S, env=environment)
            for line in output.splitlines():
                if line.startswith("{"):
                    row = json.loads(line)
                    name = f"{row['name']}, {row['rows']} rows"
                    samples.setdefault(name, []).append(row["tokens_per_s"])
                    cpu.setdefault(name, []).append(row["tokens_per_cpu_s"])
        print(f"{NAME}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in samples.items()))
    return samples, ratios(samples, cpu)
