#!/usr/bin/env python3
"""Has each of RANKS processes write its shard with torch.save and sync it. Prints the seconds until the last is done,
as JSON.

    checkpoint_shards.py FOLDER MEGABYTES RANKS REPEATS

The state and its sharding are those of checkpoint_ranks: 16 matrices, of each of which a rank has a range, flattened.
Nothing is coordinated or committed. Run it with the `torch211` environment of tools/peers_setup.sh.
SPDX-License-Identifier: Apache-2.0
"""
import json
import multiprocessing
import os
import pathlib
import shutil
import sys
import time

import torch

TENSORS, COLUMNS = 16, 1000


def rank_main(rank, ranks, folder, megabytes, repeats, barrier):
    torch.set_num_threads(1)
    torch.manual_seed(7 + rank)
    values = megabytes * (1 << 20) // 4 // TENSORS // COLUMNS * COLUMNS
    state = {f"model/layer{i}.weight": torch.rand(-(-values // ranks)) for i in range(TENSORS)}
    path = folder / f"rank{rank}.pt"
    for _ in range(repeats):
        path.unlink(missing_ok=True)
        barrier.wait()
        torch.save(state, path)
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)
        barrier.wait()


def main():
    folder, megabytes, ranks, repeats = pathlib.Path(sys.argv[1]), *map(int, sys.argv[2:5])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    barrier = multiprocessing.Barrier(ranks + 1)
    processes = [multiprocessing.Process(target=rank_main, args=(rank, ranks, folder, megabytes, repeats, barrier))
                 for rank in range(ranks)]
    for process in processes:
        process.start()
    seconds = []
    for _ in range(repeats):
        barrier.wait()
        began = time.perf_counter()
        barrier.wait()
        seconds.append({"wall_s": time.perf_counter() - began})
    for process in processes:
        process.join()
    shutil.rmtree(folder)
    print(json.dumps({"save": seconds}))


if __name__ == "__main__":
    main()
