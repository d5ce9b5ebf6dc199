"""Benches `step`, `step_cnn`, `step_gpt`: milliseconds per step of a tiny MLP (64-64-64-10, batch 16), a small ResNet
and a small GPT with fused AdamW, 1 rank, 1 thread: our trainer, the raw C++ loop, PyTorch and the Python Composer.

Goals: our trainer with a default job's callbacks, loggers and train metrics is within 20 us of the raw C++ loop that
reads the same data; >= 10 times as fast as Composer on the MLP, >= 1 time on any model. Each program prints JSON lines
{"name": ..., "ms_per_step": median of the blocks, "cpu_ms_per_step": the same of CPU time, "blocks": [...]}.
SPDX-License-Identifier: Apache-2.0
"""

import statistics

import programs
from bounded_job import step_rounds

LIMIT_S = 600


def median(values):
    return statistics.median(values) if values else None


def ratios(samples, cpu):
    """Returns the figures that the goals refer to; overheads are medians of differences within a round."""
    facts = {}
    for ours in ("trainer", "trainer_monitors"):
        if ours in cpu and "raw_loop_loading" in cpu:
            differences = [1e3 * (a - b) for a, b in zip(cpu[ours], cpu["raw_loop_loading"])]
            facts[f"{ours} over raw_loop_loading, us of CPU time a step"] = round(median(differences), 1)
    for peer in ("composer_default", "composer_bare", "pytorch_adamw_fused_dataloader"):
        if peer in samples and "trainer" in samples:
            facts[f"{peer} / trainer"] = round(median(samples[peer]) / median(samples["trainer"]), 2)
    return facts


class StepBench:
    UNIT, REFERENCE = "ms", "composer_default"

    def __init__(self, workload, name, title, share):
        self.workload, self.NAME, self.TITLE, self.share = workload, name, title, share

    def run(self, options):
        where, blocks, steps = options.programs, options.blocks, max(1, int(options.steps * self.share))
        arguments = [blocks, steps, self.workload]
        commands = [[where.torch / "python", programs.SCRIPTS / "torch_step.py", *arguments],
                    [where.mosaic / "python", programs.SCRIPTS / "composer_step.py", *arguments]]
        binary = where.ours("step_overhead")
        if binary:
            commands.insert(0, [binary, *arguments])
        samples, cpu = step_rounds(self.NAME, commands, options.repeats, LIMIT_S)
        facts = {f"{name}, ms of CPU time a step": round(median(values), 4) for name, values in cpu.items()}
        return samples, {**ratios(samples, cpu), **facts}


BENCHES = (
    StepBench("mlp", "step", "One step of an MLP 64-64-64-10, batch 16, AdamW, 1 rank, 1 thread (milliseconds)", 1),
    StepBench("cnn", "step_cnn",
              "One step of a ResNet 16-32-64 on 28 x 28, batch 32, AdamW, 1 rank, 1 thread (milliseconds)", 0.05),
    StepBench("gpt", "step_gpt",
              "One step of a GPT, 2 layers, 128 wide, context 64, batch 8, AdamW, 1 rank, 1 thread (milliseconds)",
              0.05),
)
