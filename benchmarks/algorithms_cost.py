"""Bench `algorithms_cost`: what each algorithm adds to a step or saves of it, ours and the Python Composer's, 1 rank, 1
thread. Whole runs of 4 epochs with and without the algorithm alternate in one process; the cost is the difference of
their CPU times. The models are small, so that fixed costs show. The saving by arithmetic is that of multiplications.
SPDX-License-Identifier: Apache-2.0
"""

import programs
from bounded_job import json_rows

NAME = "algorithms_cost"
TITLE = "What an algorithm costs: a step with it beside one without (milliseconds of CPU time)"
UNIT = "ms"
LIMIT_S = 3000
# Composer's GyroDropout needs as many steps in an epoch as it has masks in use (16).
LONGER = {"gyro_dropout": 64}
# The part of the model's multiplications that is left out, by the arguments in algorithm_step.cc.
SAVED = {
    "colout": 1 - 0.85**2,  # rows and columns
    "factorize": 1 - (2 * 65536 + 32768) / (2 * 196608 + 32768),  # of 2 blocks; the head stays
    "layer_freezing": 2 / 3 * (0 + 0.188 + 0.631 + 0.756) / 4,  # backward of the frozen layers' part, by epoch
    "progressive_resizing": 1 - (0.5 * (16 / 28)**2 + 0.3 * 0.592 + 0.2),  # widths 16; 16 to 28; 28
    "selective_backprop": 1 - (1 / 3 * 0.25 + 0.5),  # a forward of a quarter of the pixels, half of the samples
    "seq_length_warmup": 0.3 * (1 - 32 / 64),  # lengths 8 to 56 in the first 30 %
    "batch_size_warmup": 0.5 * (1 - 0.625),  # a quarter to all of the batch in the first half
    "stochastic_depth": (903 * 0.2 / 3 + 703 * 0.4 / 3 + 918 * 0.2) / 2552,  # by the blocks' thousands
}
NOT_IN_COMPOSER = {"alternating_flip", "batch_size_warmup", "cautious_weight_decay", "lawa", "logit_soft_cap", "lora",
                   "progressive_layer_dropping", "qk_norm", "relu_squared", "value_embeddings", "whitening_conv", "z_loss",
                   "zero_init"}
rows = {}  # by name: {"ours": row, "composer": row}


def measure(side, command, options):
    rounds, steps = options.blocks, options.steps // 30
    for row in json_rows([*command, rounds, steps], LIMIT_S):
        rows.setdefault(row["name"], {})[side] = row
    for name, more in LONGER.items():
        if steps < more:
            rows.setdefault(name, {})[side] = json_rows([*command, rounds, more, name], LIMIT_S)[0]


def table(_):
    lines = ["| algorithm | model | ours without | with | cost | Composer without | with | cost | saved by arithmetic |",
             "|---|---|---|---|---|---|---|---|---|"]
    for name, sides in sorted(rows.items()):
        saved = f"{100 * SAVED[name]:.0f} %" if name in SAVED else ""
        cells = []
        for side in ("ours", "composer"):
            row = sides.get(side, {"why": "not in Composer" if name in NOT_IN_COMPOSER else "not measured"})
            if "why" in row:
                cells += [row["why"], "", ""]
                continue
            cost = 100 * (row["cpu_ms"] / row["base_cpu_ms"] - 1)
            cells += [f"{row['base_cpu_ms']:.2f}", f"{row['cpu_ms']:.2f}", f"{cost:+.0f} %"]
        workload = next((row["workload"] for row in sides.values() if "workload" in row), "")
        lines.append(f"| {name} | {workload} | {' | '.join(cells)} | {saved} |")
    return "\n".join(lines)


def run(options):
    where = options.programs
    binary = where.ours("algorithm_step")
    if binary:
        measure("ours", [binary], options)
    measure("composer", [where.mosaic / "python", programs.SCRIPTS / "composer_algorithms.py"], options)
    dearer = [name for name, sides in rows.items() if all("cpu_ms" in sides.get(side, {}) for side in ("ours", "composer"))
              and sides["ours"]["cpu_ms"] - sides["ours"]["base_cpu_ms"] >
              1.1 * max(0, sides["composer"]["cpu_ms"] - sides["composer"]["base_cpu_ms"]) + 0.3]
    samples = {name: [sides["ours"]["cpu_ms"]] for name, sides in rows.items() if "cpu_ms" in sides.get("ours", {})}
    return samples, {"costs more than Composer's by over 10 % and 0.3 ms": dearer}
