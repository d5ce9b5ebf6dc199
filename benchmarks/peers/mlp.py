"""The tiny MLP of the step benchmark: 64-64-64-10, batches of 16, on one thread.
SPDX-License-Identifier: Apache-2.0
"""

import json
import statistics
import sys
import time

import torch
from torch import nn

WIDTH, CLASSES, BATCH = 64, 10, 16


def make_mlp():
    torch.manual_seed(17)
    return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, WIDTH), nn.ReLU(),
                         nn.Linear(WIDTH, CLASSES))


def make_data(batches):
    generator = torch.Generator().manual_seed(18)
    inputs = torch.rand(batches * BATCH, WIDTH, generator=generator)
    return inputs, torch.randint(0, CLASSES, (batches * BATCH,), generator=generator)


def blocks_and_steps():
    """Command line: BLOCKS STEPS; a block of steps gives one figure."""
    return int(sys.argv[1]), int(sys.argv[2])


def report(name, block_seconds, steps):
    """One JSON line, as our step_overhead prints them."""
    ms = [1e3 * seconds / steps for seconds in block_seconds]
    print(json.dumps({"name": name, "ms_per_step": statistics.median(ms), "blocks": ms}), flush=True)


def timed(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start
