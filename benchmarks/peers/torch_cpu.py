"""torch_cpu.py WORKLOAD BLOCKS STEPS PRECISION MODE THREADS: steps of PyTorch with fused AdamW, for benchmarks/cpu_peers.py.

WORKLOAD: cnn, char_gpt, gpt2 (the shapes of benchmarks/step_overhead.cc). PRECISION: fp32 or bf16 (autocast). MODE: eager or
compile, or these with "_channels_last". Prints {"cpu_blocks": [CPU milliseconds a step, by block], "losses": [the last steps']}; block 0 is a warm-up.
SPDX-License-Identifier: Apache-2.0
"""

import json
import sys
import time

import torch
import workloads
from torch.nn import functional

NAME, BLOCKS, STEPS, PRECISION, MODE, THREADS = (kind(text) for kind, text in zip((str, int, int, str, str, int), sys.argv[1:7]))
SHAPES = {"char_gpt": dict(LAYERS=4), "gpt2": dict(LAYERS=12, WIDTH=768, HEADS=12, VOCAB=50257), "cnn": {}}
BATCHES = {"char_gpt": 12, "gpt2": 4, "cnn": 32}


def main():
    torch.set_num_threads(THREADS)
    for field, value in SHAPES[NAME].items():
        setattr(workloads, field, value)
    kind = "cnn" if NAME == "cnn" else "gpt"
    workloads.BATCH[kind] = BATCHES[NAME]
    model = workloads.make_model(kind)
    inputs, targets = workloads.make_data(kind, 16)
    batches = list(zip(inputs.split(BATCHES[NAME]), targets.split(BATCHES[NAME])))
    if MODE.endswith("_channels_last"):
        model = model.to(memory_format=torch.channels_last)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    forward = torch.compile(model) if MODE.startswith("compile") else model

    def step(number):
        x, y = batches[number % len(batches)]
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=PRECISION == "bf16"):
            logits = forward(x)
            loss = functional.cross_entropy(logits.flatten(0, -2), y.flatten())
        loss.backward()
        optimizer.step()
        return loss

    cpu, losses, number = [], [], 0
    for _ in range(BLOCKS):
        begin = time.process_time()
        for _ in range(STEPS):
            losses.append(step(number).item())
            number += 1
        cpu.append(1e3 * (time.process_time() - begin) / STEPS)
    print(json.dumps({"cpu_blocks": cpu, "losses": losses[-3:]}), flush=True)


main()
