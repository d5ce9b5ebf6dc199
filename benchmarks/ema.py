"""Bench `ema`: the cost of an average of the weights for a step of the small GPT (4 layers, 128 wide, batch 8), ours
and the Python Composer's, 1 rank, 1 thread. Each program runs with and without, in turns; the difference of CPU times
is the cost.
SPDX-License-Identifier: Apache-2.0
"""

import statistics

import programs
from bounded_job import step_rounds

NAME = "ema"
TITLE = "A step of a GPT of 4 layers and 128 wide (0.84M parameters), batch 8, with EMA and without, and an update alone (milliseconds)"
UNIT, REFERENCE = "ms", "composer_ema"
LIMIT_S = 600


def run(options):
    where, arguments = options.programs, [options.blocks, max(10, options.steps // 40)]
    commands = [[where.mosaic / "python", programs.SCRIPTS / "composer_ema.py", *arguments]]
    binary = where.ours("ema_step")
    if binary:
        commands.insert(0, [binary, *arguments])
    samples, cpu = step_rounds(NAME, commands, options.repeats, LIMIT_S)
    facts = {f"{name}, ms of CPU time": round(statistics.median(values), 4) for name, values in cpu.items()}
    for with_it, without in (("ema", "plain"), ("composer_ema", "composer_plain")):
        if with_it in cpu:
            differences = [a - b for a, b in zip(cpu[with_it], cpu[without])]
            facts[f"{with_it} - {without}, ms of CPU time a step"] = round(statistics.median(differences), 4)
    if "ema_update" in cpu:
        facts["composer_ema_update / ema_update"] = round(
            statistics.median(cpu["composer_ema_update"]) / statistics.median(cpu["ema_update"]), 2)
    return samples, facts
