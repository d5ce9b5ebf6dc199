"""Measures Grain for benchmarks/data.py: CPU time of a sample of 1 KiB out of an array in memory, shuffled, in batches of
256; the first batch and a resume of a shuffled order of 10^9. Prints one JSON object.
SPDX-License-Identifier: Apache-2.0
"""
import json
import resource
import sys
import time

import grain
import numpy as np


class Rows:
    def __init__(self, count):
        self.rows = np.zeros((count, 1024), dtype=np.uint8)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index]


def cpu():
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main():
    samples = int(sys.argv[1])
    data = grain.MapDataset.source(Rows(samples)).shuffle(seed=1).batch(256)
    begin = cpu()
    for i in range(len(data)):
        data[i]
    result = {"Grain over an array, ns": (cpu() - begin) / samples * 1e9}
    begin = time.monotonic()
    order = grain.MapDataset.range(10**9).shuffle(seed=1)
    [order[i] for i in range(2048)]
    result["Grain, global shuffle of 10^9, first 2048, ms"] = (time.monotonic() - begin) * 1e3
    print(json.dumps(result))


if __name__ == "__main__":
    main()
