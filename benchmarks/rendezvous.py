"""Bench `rendezvous`: N stub agents meet over real gRPC, with a TCP connection each, opened beforehand. The time is
that from the first Join to the last World.
torchrun's c10d rendezvous runs beside it with 64 agents, and once with 256 (it took 45 s when tried alone). A size that
does not finish in time is a result and not an error, so that the bench ends within five minutes.
SPDX-License-Identifier: Apache-2.0
"""

import json
import subprocess

import programs

NAME = "rendezvous"
TITLE = "Rendezvous of N agents on one machine (seconds from the first Join to the last World)"
UNIT, REFERENCE = "s", "torchrun, 64"
SIZES = {64: (5, 10), 256: (5, 10), 1000: (3, 20), 10000: (2, 60)}  # agents: runs, and the time limit of one in seconds
TORCH_SIZES = {64: (3, 20), 256: (1, 60)}


def timed(command, limit_s):
    """Returns what the command printed, or None when it did not finish in time."""
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return None
    if out.returncode != 0:
        raise RuntimeError(f"{command}: {out.stderr.strip()}")
    return out.stdout.strip()


def run(options):
    ours = options.programs.ours("rendezvous_scale")
    samples = {f"ours, {size}": [] for size in SIZES} | {REFERENCE: []}
    facts = {}
    for size, (runs, limit_s) in SIZES.items():
        for _ in range(min(runs, options.repeats) if ours else 0):
            out = timed([ours, str(size)], limit_s)
            if out is None:
                facts[f"{size} agents"] = f"not done in {limit_s} s"
                break
            result = json.loads(out)
            samples[f"ours, {size}"].append(result["meet_s"])
            facts[f"{size} agents"] = result
            print(f"rendezvous: {out}")
    for size, (runs, limit_s) in TORCH_SIZES.items():
        for _ in range(min(runs, options.repeats)):
            out = timed([options.programs.torch / "python", programs.SCRIPTS / "torch_rendezvous.py", str(size)],
                        limit_s)
            print(f"rendezvous: torchrun with {size} agents: {out or 'not done in'} {'' if out else limit_s} s")
            facts[f"torchrun, {size} agents"] = f"{out} s" if out else f"not done in {limit_s} s"
            if out and size == 64:
                samples[REFERENCE].append(float(out))
    return samples, facts
