"""torch_mlp_step.py BLOCKS STEPS: raw PyTorch loops on the tiny MLP; one JSON line for each kind of loop.
SPDX-License-Identifier: Apache-2.0
"""

import torch
from mlp import BATCH, blocks_and_steps, make_data, make_mlp, report, timed
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset


def measure(name, batches, blocks, steps, **optimizer_args):
    model = make_mlp()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, **optimizer_args)

    def run():
        for inputs, labels in batches():
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()

    run()  # warm-up
    report(name, [timed(run) for _ in range(blocks)], steps)


def main():
    torch.set_num_threads(1)
    blocks, steps = blocks_and_steps()
    inputs, labels = make_data(steps)
    sliced = list(zip(inputs.split(BATCH), labels.split(BATCH)))
    loader = DataLoader(TensorDataset(inputs, labels), BATCH, shuffle=True)
    measure("pytorch_adamw", lambda: sliced, blocks, steps)
    measure("pytorch_adamw_fused", lambda: sliced, blocks, steps, fused=True)
    measure("pytorch_adamw_fused_dataloader", lambda: loader, blocks, steps, fused=True)


main()
