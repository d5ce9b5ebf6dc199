#!/usr/bin/env python3
"""Writes pictures of discs, squares and triangles on noise, and the class of each pixel, as MDS shards. No packages.

    python3 make_shapes.py FOLDER        FOLDER/train: 1600 samples, FOLDER/test: 400

A sample has `inputs`, uint8 [3, 48, 48], and `targets`, int64 [48, 48]: 0 background, 1 disc, 2 square, 3 triangle.
"""
import json
import pathlib
import random
import struct
import sys

SIDE = 48
COLUMNS = {"inputs": (f"ndarray:uint8:3,{SIDE},{SIDE}", 3 * SIDE * SIDE),
           "targets": (f"ndarray:int64:{SIDE},{SIDE}", 8 * SIDE * SIDE)}


def covers(kind, size, x, y):
    if kind == 1:
        return x * x + y * y <= size * size
    if kind == 2:
        return max(abs(x), abs(y)) <= 0.85 * size
    return -size <= y <= 0.8 * size and abs(x) <= 0.55 * (y + size)


def sample(draw):
    pixels = [bytearray(draw.randbytes(SIDE * SIDE)) for _ in range(3)]
    for plane in pixels:
        plane[:] = bytes(value >> 1 for value in plane)  # darker than shapes on average, not everywhere
    classes = [0] * (SIDE * SIDE)
    for _ in range(draw.randint(1, 3)):
        kind, size = draw.randint(1, 3), draw.uniform(6, 12)
        centre_x, centre_y = draw.uniform(8, SIDE - 8), draw.uniform(8, SIDE - 8)
        colour = [draw.randint(60, 220) for _ in range(3)]
        for y in range(SIDE):
            for x in range(SIDE):
                if covers(kind, size, x - centre_x, y - centre_y):
                    place = y * SIDE + x
                    classes[place] = kind
                    for plane, value in zip(pixels, colour):
                        plane[place] = max(0, min(255, value + (plane[place] - 64) // 2))
    return b"".join(pixels) + struct.pack(f"<{SIDE * SIDE}q", *classes)


def write(folder, count, seed):
    folder.mkdir(parents=True, exist_ok=True)
    draw = random.Random(seed)
    samples = [sample(draw) for _ in range(count)]
    about = dict(column_encodings=[encoding for encoding, _ in COLUMNS.values()], column_names=list(COLUMNS),
                 column_sizes=[size for _, size in COLUMNS.values()], compression=None, format="mds", hashes=[],
                 size_limit=1 << 26)
    header = json.dumps(about, sort_keys=True).encode()
    at = 4 + 4 * (count + 1) + len(header)
    offsets = [at + i * len(samples[0]) for i in range(count + 1)]
    content = struct.pack(f"<{count + 2}I", count, *offsets) + header + b"".join(samples)
    (folder / "shard.00000.mds").write_bytes(content)
    raw = dict(basename="shard.00000.mds", bytes=len(content), hashes={})
    index = dict(version=2, shards=[dict(about, raw_data=raw, samples=count, version=2, zip_data=None)])
    (folder / "index.json").write_text(json.dumps(index, sort_keys=True))


if __name__ == "__main__":
    target = pathlib.Path(sys.argv[1])
    write(target / "train", 1600, 1)
    write(target / "test", 400, 2)
