"""Bench `rendezvous`: N stub agents meet over real gRPC, a TCP connection each, connections open beforehand; from the first Join to the last World.
torchrun's c10d rendezvous beside it with 64 agents (256 took 45 s when tried alone).

SPDX-License-Identifier: Apache-2.0
"""

import json
import subprocess

import programs

NAME = "rendezvous"
TITLE = "Rendezvous of N agents on one machine (seconds from the first Join to the last World)"
UNIT, REFERENCE = "s", "torchrun, 64"
SIZES = {64: 5, 256: 5, 1000: 3, 10000: 1}  # agents: runs
LIMIT_S = 300


def run(options):
    ours = options.programs.ours("rendezvous_scale")
    samples = {f"ours, {size}": [] for size in SIZES} | {REFERENCE: []}
    facts = {}
    for size, runs in SIZES.items():
        for _ in range(min(runs, options.repeats) if ours else 0):
            out = subprocess.run([ours, str(size)], capture_output=True, text=True, timeout=LIMIT_S, check=False)
            if out.returncode != 0:
                raise RuntimeError(f"{size} agents: {out.stderr.strip()}")
            result = json.loads(out.stdout)
            samples[f"ours, {size}"].append(result["meet_s"])
            facts[f"{size} agents"] = result
            print(f"rendezvous: {out.stdout.strip()}")
    for _ in range(min(3, options.repeats)):
        out = subprocess.run([options.programs.torch / "python", programs.SCRIPTS / "torch_rendezvous.py", "64"], capture_output=True,
                             text=True, timeout=LIMIT_S, check=True)
        samples[REFERENCE].append(float(out.stdout))
        print(f"rendezvous: torchrun with 64 agents: {out.stdout.strip()} s")
    return samples, facts
