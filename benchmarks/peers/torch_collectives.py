"""torch_collectives.py RANKS ROUNDS: torch.distributed with Gloo, with the collectives and sizes of
benchmarks/collectives.cc.

Prints the same JSON lines. SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import resource
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist

BLOCKS, SIZES = 7, (4 << 10, 64 << 10, 1 << 20, 25 << 20)


def cpu_us():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return 1e6 * (used.ru_utime + used.ru_stime)


def measure(name, size, rounds, collective):
    count = max(3, int(rounds * 4096 / max(size, 65536)))
    blocks, cpu = [], []
    for block in range(BLOCKS + 1):
        cpu_before, start = cpu_us(), time.monotonic()
        for _ in range(count):
            collective()
        facts = torch.tensor([1e6 * (time.monotonic() - start) / count, (cpu_us() - cpu_before) / count],
                             dtype=torch.double)
        dist.all_reduce(facts)
        if block:  # the first block is a warm-up
            blocks.append(facts[0].item() / dist.get_world_size())
            cpu.append(facts[1].item())
    if dist.get_rank() == 0:
        print(json.dumps({"name": "torch_gloo", "collective": name, "bytes": size,
                          "us": round(statistics.median(blocks), 2),
                          "cpu_us": round(statistics.median(cpu), 2), "blocks": blocks}), flush=True)


def run_rank(folder, rank, ranks, rounds):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    for size in SIZES:
        part = size // 4 // ranks
        whole, own = torch.zeros(part * ranks), torch.zeros(part)
        measure("all-reduce", size, rounds, lambda: dist.all_reduce(whole))
        measure("all-gather", size, rounds, lambda: dist.all_gather_into_tensor(whole, own))
        measure("reduce-scatter", size, rounds, lambda: dist.reduce_scatter_tensor(own, whole))


def main():
    ranks, rounds = int(sys.argv[1]), float(sys.argv[2])
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    with tempfile.TemporaryDirectory() as folder:
        children = []
        for rank in range(ranks):
            pid = os.fork()
            if pid == 0:
                run_rank(folder, rank, ranks, rounds)
                os._exit(0)
            children.append(pid)
        failed = [pid for pid in children if os.waitpid(pid, 0)[1] != 0]
    sys.exit(70 if failed else 0)


main()
