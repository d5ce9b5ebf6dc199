#!/usr/bin/env python3
"""Compares sample orders with mosaicml-streaming 0.13's over random configurations: shuffle, partition, batching, sampling,
canonical nodes, block sizes, seeds, epochs, nodes, ranks, workers, weights. With compat the whole sequence must be equal,
the package's refusals refused; without it, full global batches must have the same samples until the package repeats
some, and each drawn copy must be served once. `./dev streaming` runs it (needs tools/peers_setup.sh streaming).
SPDX-License-Identifier: Apache-2.0
"""

import argparse
import collections
import json
import logging
import pathlib
import random
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
from make_streaming_goldens import draw_config, order  # noqa: E402


def difference(config, theirs, compat, ours):
    """Returns what is wrong, or None."""
    if isinstance(theirs, str):
        # What py1e alone refuses, and block sizes of 0 for shuffles without blocks: we serve these.
        served = "assigned to a canonical node is 0" in theirs or "are not being used" in theirs
        return None if served or isinstance(compat, str) else f"the package refuses: {theirs}"
    if theirs != compat:
        return f"compat differs: {compat if isinstance(compat, str) else next((i for i, (a, b) in enumerate(zip(theirs, compat)) if a != b), 'in length')}"
    if isinstance(ours, str):
        return f"refused without compat: {ours}"
    more = collections.Counter(i for i in theirs if i >= 0) - collections.Counter(ours)
    if config["canonical_nodes"] == 1 and config["nodes"] * config["ranks"] == 1 and more:
        return "the package serves copies that we do not, though it has nothing to fill up"
    if config["batching"] == "random":
        batch = config["global_batch"]
        unrepeated = len(ours) // config["canonical_nodes"] * config["canonical_nodes"]
        for begin in range(0, unrepeated - batch + 1, batch):
            if sorted(ours[begin:begin + batch]) != sorted(theirs[begin:begin + batch]):
                return f"the global batch at {begin} has other samples"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--configurations", type=int, default=400, help="that the package accepts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--binary", default=str(ROOT / "build/release/tests/print_orders"))
    options = parser.parse_args()
    logging.disable(logging.WARNING)
    rng = random.Random(options.seed)
    counts, refused, wrong, samples = collections.Counter(), 0, 0, 0
    with subprocess.Popen([options.binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        while sum(counts.values()) < options.configurations:
            config = draw_config(rng, big=rng.random() < 0.3)
            theirs = order(config)
            program.stdin.write(json.dumps(config) + "\n")
            program.stdin.flush()
            compat, ours = json.loads(program.stdout.readline())
            if problem := difference(config, theirs, compat, ours):
                wrong += 1
                print(f"{problem}\n  {json.dumps(config)}", flush=True)
            if isinstance(theirs, str):
                refused += 1
            else:
                counts[config["shuffle"], config["batching"]] += 1
                samples += len(theirs)
        program.stdin.close()
    print(f"{sum(counts.values())} configurations ({samples} places, {len(counts)} pairs of shuffle and batching), {refused} refused by both, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
