"""torch_step.py BLOCKS STEPS [mlp|cnn|gpt]: raw PyTorch loops; prints one JSON line for each kind of loop.
SPDX-License-Identifier: Apache-2.0
"""

import torch
from torch.utils.data import DataLoader, TensorDataset
from workloads import BATCH, arguments, loss_of, make_data, make_model, now, report, since


def measure(name, workload, batches, blocks, steps, **optimizer_args):
    model = make_model(workload)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, **optimizer_args)

    def run():
        start = now()
        for inputs, targets in batches():
            optimizer.zero_grad()
            loss_of(model(inputs), targets).backward()
            optimizer.step()
        return since(start)

    run()  # warm-up
    report(name, [run() for _ in range(blocks)], steps)


def main():
    torch.set_num_threads(1)
    blocks, steps, workload = arguments()
    inputs, targets = make_data(workload, steps)
    batch = BATCH[workload]
    sliced = list(zip(inputs.split(batch), targets.split(batch)))
    loader = DataLoader(TensorDataset(inputs, targets), batch, shuffle=True)
    if workload == "mlp":
        measure("pytorch_adamw", workload, lambda: sliced, blocks, steps)
    measure("pytorch_adamw_fused", workload, lambda: sliced, blocks, steps, fused=True)
    measure("pytorch_adamw_fused_dataloader", workload, lambda: loader, blocks, steps, fused=True)


main()
