"""Bench `muon_share`: the CPU time of a step with Muon beside one with SGD, whose update costs next to nothing, under
FULL_SHARD on 1, 2 and 4 ranks. The job is examples/recipes/nanogpt-twin.yaml with its 32 samples on each rank. A step
is the difference between a long and a short run, so that starting is not counted. One thread a rank.
SPDX-License-Identifier: Apache-2.0
"""

import resource
import statistics
import tempfile

import programs
from bounded_job import run_to_exit

NAME = "muon_share"
TITLE = "CPU milliseconds of a step of a GPT of 4 layers and 128 wide, FULL_SHARD (all ranks together)"
UNIT, REFERENCE = "ms", "1 rank, muon"
LIMIT_S, SHORT, LONG, BATCH = 600, 10, 50, 32
WORLDS = (1, 2, 4)

JOB = programs.REPOSITORY / "examples" / "recipes" / "nanogpt-twin.yaml"
OPTIMIZERS = {
    "muon": [],
    "sgd": ["~optimizers", "+optimizers.name=decoupled_sgdw", "+optimizers.lr=0.01", "+optimizers.momentum=0"],
}


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def run_steps(binary, ranks, optimizer, steps):
    """Returns the CPU seconds of a whole run."""
    with tempfile.TemporaryDirectory(prefix="bench-muon-") as folder:
        before = cpu_seconds()
        run_to_exit([binary, "-n", ranks, JOB, f"run_folder={folder}/run", f"max_duration={steps}ba",
                     "schedulers.t_decay=5ba", f"global_train_batch_size={BATCH * ranks}", "eval_interval=0ba",
                     "save_interval=100000ba", *OPTIMIZERS[optimizer]],
                    LIMIT_S, cwd=programs.REPOSITORY, env={"OMP_NUM_THREADS": "1"})
        return cpu_seconds() - before


def step_ms(binary, *case):
    return 1e3 * (run_steps(binary, *case, LONG) - run_steps(binary, *case, SHORT)) / (LONG - SHORT)


def world(ranks):
    return f"{ranks} rank{'s' if ranks > 1 else ''}"


def run(options):
    binary = options.programs.ours("composer")
    samples = {}
    for round_ in range(options.repeats if binary else 0):
        for ranks in WORLDS:
            for optimizer in OPTIMIZERS:
                samples.setdefault(f"{world(ranks)}, {optimizer}", []).append(step_ms(binary, ranks, optimizer))
        print(f"{NAME}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.1f} ms" for k, v in samples.items()))
    facts = {}
    for name in map(world, WORLDS):
        if f"{name}, muon" in samples:
            muon, sgd = (statistics.median(samples[f"{name}, {optimizer}"]) for optimizer in ("muon", "sgd"))
            facts[f"{name}: Muon's share of the step"] = round(1 - sgd / muon, 3)
    return samples, facts
