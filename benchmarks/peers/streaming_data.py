"""Measures mosaicml-streaming and torch's DataLoader for benchmarks/data.py: prints one JSON object.

    streaming_data.py FOLDER SAMPLES ORDER_SAMPLES

FOLDER holds our MDS data set of `label` and 1-KiB `x`; SAMPLES of it are read. CPU time is this process's and its
children's. SPDX-License-Identifier: Apache-2.0
"""
import json
import logging
import os
import resource
import shutil
import sys
import tempfile
import time
import warnings

warnings.filterwarnings("ignore")
logging.disable(logging.WARNING)

import numpy as np  # noqa: E402
import torch  # noqa: E402
from streaming.base.dataset import StreamingDataset  # noqa: E402
from streaming.base.format.mds.writer import MDSWriter  # noqa: E402
from streaming.base.shuffle import get_shuffle  # noqa: E402


def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def timed(function):
    begin, used = time.monotonic(), cpu()
    function()
    return time.monotonic() - begin, cpu() - used


class InMemory(torch.utils.data.Dataset):
    def __init__(self, count):
        self.rows = np.zeros((count, 1024), dtype=np.uint8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def main():
    folder, samples, order_samples = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    result = {}
    data = StreamingDataset(local=folder, shuffle=True, batch_size=256, num_canonical_nodes=1)
    ids = np.random.default_rng(1).permutation(len(data))[:samples]
    read = lambda: [data[int(i)] for i in ids]  # noqa: E731
    read()
    result["streaming, by index, ns"] = timed(read)[1] / samples * 1e9
    _, used = timed(lambda: sum(1 for _ in data))
    result["streaming, iterated, ns"] = used / len(data) * 1e9
    loader = torch.utils.data.DataLoader(InMemory(samples), batch_size=256, shuffle=True)
    result["torch's DataLoader over an array, ns"] = timed(lambda: sum(1 for _ in loader))[1] / samples * 1e9
    shards = np.full(order_samples // 50000, 50000, dtype=np.int64)
    for nodes in (1, 64):
        block = max(4_000_000 // nodes, 1 << 18)
        wall, used = timed(lambda: get_shuffle("py1e", shards, nodes, 9176, 1, block))  # noqa: B023
        result[f"streaming, py1e, {nodes} canonical nodes, s of CPU"] = used
    out = tempfile.mkdtemp()
    row = os.urandom(1024)

    def write():
        with MDSWriter(out=os.path.join(out, "x"), columns={"label": "int", "x": "bytes"}) as writer:
            for i in range(samples):
                writer.write({"label": i, "x": row})

    result["streaming, writing, MB a CPU second"] = samples * 1024 / 1e6 / timed(write)[1]
    shutil.rmtree(out)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
