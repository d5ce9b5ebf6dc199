"""Runs a head and its cross-entropy under torch's tensor parallelism: ColwiseParallel and loss_parallel, 2 ranks, Gloo.
SPDX-License-Identifier: Apache-2.0
"""

import os
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from golden_file import Lcg, write

RANKS, BATCH, TOKENS, WIDTH, VOCAB = 2, 2, 4, 6, 10
TARGETS = [[0, 4, 5, 9], [-100, 7, 4, -100]]
NOTE = (
    "hidden [2, 4, 6] is 3 x Lcg(1), the head's weight [10, 6] Lcg(2) without bias: ColwiseParallel over 2 ranks, its "
    "output not gathered; cross_entropy of the logits and targets under torch.distributed.tensor.parallel."
    "loss_parallel. Gradients are those of the loss; the weight's whole.")


def compute(rank, folder):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Shard
    from torch.distributed.tensor.parallel import ColwiseParallel, loss_parallel, parallelize_module

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    head = torch.nn.Linear(WIDTH, VOCAB, bias=False)
    with torch.no_grad():
        head.weight.copy_(Lcg(2).tensor(VOCAB, WIDTH))
    parallelize_module(head, init_device_mesh("cpu", (RANKS,)),
                       ColwiseParallel(output_layouts=Shard(-1), use_local_output=False))
    hidden = (Lcg(1).tensor(BATCH, TOKENS, WIDTH) * 3).requires_grad_()
    with loss_parallel():
        logits = head(hidden)
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), torch.tensor(TARGETS).flatten())
        loss.backward()
    weight_grad = head.weight.grad.full_tensor()
    if rank == 0:
        torch.save({"loss": loss.full_tensor().item(), "hidden_grad": hidden.grad.flatten().tolist(),
                    "weight_grad": weight_grad.flatten().tolist()}, f"{folder}/result")
    dist.destroy_process_group()


def loss_parallel():
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(compute, (folder,), nprocs=RANKS)
        result = torch.load(os.path.join(folder, "result"))
    write("torch_loss_parallel", NOTE, {"targets": TARGETS, **result})
