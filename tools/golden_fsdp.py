"""Runs ten steps of a small model of blocks under torch's fully_shard: 2 ranks, Gloo, float32.
SPDX-License-Identifier: Apache-2.0
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from golden_file import Lcg, write

WIDTHS, STEPS, BATCH, RANKS = [5, 16, 40], 10, 8, 2
ADAMW = {"lr": 0.01, "betas": [0.9, 0.95], "eps": 1e-8, "weight_decay": 1e-3}
NOTE = (
    "10 steps of in = Linear(8, 8), blocks x + down(gelu(up(norm(x)))) with LayerNorm(8), Linear(8, w), Linear(w, 8) for w of `widths`, head = Linear(8, 8) of whose outputs the "
    "first 4 are logits; every parameter, in the order of the model, is 0.3 x Lcg(1). 40 rows of 8 draws of Lcg(2); the target is the position of the largest of the first 4. Not "
    "shuffled, batches of 8: 4 on each of 2 ranks. Each block and the whole under torch.distributed.fsdp.fully_shard, float32; AdamW. `losses`: of the global batch before each "
    "step; `parameters` after the last.")


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, width), torch.nn.Linear(width, 8)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        setattr(self, "in", torch.nn.Linear(8, 8))
        for i, width in enumerate(WIDTHS):
            setattr(self, f"block{i + 1}", Block(width))
        self.head = torch.nn.Linear(8, 8)
        draws = Lcg(1)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(draws.tensor(*parameter.shape) * 0.3)

    def blocks(self):
        return [getattr(self, f"block{i + 1}") for i in range(len(WIDTHS))]

    def forward(self, x):
        x = getattr(self, "in")(x)
        for block in self.blocks():
            x = block(x)
        return self.head(x)[:, :4]


def train(rank, folder):
    from torch.distributed.fsdp import fully_shard

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    model = Model()
    for block in model.blocks():
        fully_shard(block)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), **ADAMW)
    inputs = Lcg(2).tensor(40, 8)
    targets = inputs[:, :4].argmax(1)
    losses = []
    for step in range(STEPS):
        begin = step * BATCH % 40 + rank * BATCH // RANKS
        rows = slice(begin, begin + BATCH // RANKS)
        loss = torch.nn.functional.cross_entropy(model(inputs[rows]), targets[rows])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach() / RANKS
        dist.all_reduce(mean)
        losses.append(mean.item())
    parameters = {name: parameter.full_tensor().flatten().tolist() for name, parameter in model.named_parameters()}
    if rank == 0:
        torch.save((losses, parameters), os.path.join(folder, "result"))
    dist.destroy_process_group()


def torch_fsdp():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(train, (folder,), nprocs=RANKS)
        losses, parameters = torch.load(os.path.join(folder, "result"))
    write("torch_fsdp", NOTE, {"widths": WIDTHS, "adamw": ADAMW, "losses": losses, "parameters": parameters})
