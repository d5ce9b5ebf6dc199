"""Bench `generate`: greedy generation with a GPT of 10.9 million parameters on one thread, with a KV cache and without, ours beside a plain
torch loop in Python and, when it is there, Hugging Face's transformers (COMPOSER_TRANSFORMERS: the folder it is installed in).

SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import statistics

import programs
from bounded_job import run_to_exit

NAME = "generate"
TITLE = "Greedy generation, GPT of 10.9M parameters, prompt of 32, 96 new tokens, 1 thread (new tokens a second of all rows; more is better)"
UNIT, REFERENCE = "tokens/s", "torch loop, cache, 1 rows"
LIMIT_S = 300
# layers, width, heads, context, prompt, new tokens, rows
SHAPE = (6, 384, 6, 128, 32, 96, 1, 8)


def table(summary):
    base = summary.get(REFERENCE, {}).get("median")
    lines = [f"| program | median {UNIT} | lowest | highest | runs | it / {REFERENCE} |", "|---|---|---|---|---|---|"]
    for name, row in summary.items():
        figures = " | ".join(f"{row[key]:.0f}" for key in ("median", "low", "high"))
        lines.append(f"| {name} | {figures} | {row['count']} | {format(row['median'] / base, '.2f') if base else '-'} |")
    return "\n".join(lines)


def run(options):
    where = options.programs
    binary = where.ours("generate")
    commands = [[binary, *SHAPE]] if binary else []
    commands.append([where.torch / "python", programs.SCRIPTS / "torch_generate.py", *SHAPE])
    environment = {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.environ.get("COMPOSER_TRANSFORMERS", "")}
    samples = {}
    for round_ in range(options.repeats):
        for argv in commands:
            _, output = run_to_exit(argv, LIMIT_S, env=environment)
            for line in output.splitlines():
                if line.startswith("{"):
                    row = json.loads(line)
                    samples.setdefault(f"{row['name']}, {row['rows']} rows", []).append(row["tokens_per_s"])
        print(f"{NAME}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.0f}" for k, v in samples.items()))
    median = {name: statistics.median(values) for name, values in samples.items()}
    facts = {}
    for name in median:
        who, way = name.split(", ", 1)
        if who != "ours" and f"ours, {way}" in median:
            facts[f"ours / {name}"] = round(median[f"ours, {way}"] / median[name], 2)
    for rows in SHAPE[6:]:
        if binary:
            facts[f"ours, cache / no cache, {rows} rows"] = round(median[f"ours, cache, {rows} rows"] / median[f"ours, no cache, {rows} rows"], 2)
    return samples, facts
