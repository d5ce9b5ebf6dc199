"""Bench `launch`: starting `true` 8 times, exec to exit, with rendezvous and join. Goal: a median of at most 50 ms.
SPDX-License-Identifier: Apache-2.0
"""

import programs
from bounded_job import free_port, run_to_exit

NAME = "launch"
TITLE = "A launcher that starts 8 x `true`, exec to exit (seconds)"
UNIT, REFERENCE = "s", "torchrun"
LIMIT_S = 60
OURS_A_ROUND = 10  # ours is short, so one round includes more of them


def run(options):
    binary = options.programs.ours("composer")
    samples = {"ours": [], "torchrun": [], "python composer": []}
    script = programs.SCRIPTS / "torchrun_true.sh"
    for round_ in range(options.repeats):
        if binary:
            for _ in range(OURS_A_ROUND):
                samples["ours"].append(run_to_exit([binary, "-n", 8, "-c", "true"], LIMIT_S)[0])
        for name, launcher in (("torchrun", "torchrun"), ("python composer", "composer")):
            port = {"BENCH_PORT": str(free_port())}
            samples[name].append(run_to_exit([script, launcher, 8], LIMIT_S, env=port)[0])
        print(f"launch, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.3f} s" for k, v in samples.items() if v))
    return samples
