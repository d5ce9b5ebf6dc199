#!/usr/bin/env python3
"""Data sets written by mosaicml-streaming 0.13's writers, below tests/golden/mds/: one folder each, and values.json with
what each sample holds: the encoded values in hexadecimal digits, columns sorted by name. Run it with a Python that has
mosaicml-streaming==0.13.0 (tools/peers_setup.sh streaming).
SPDX-License-Identifier: Apache-2.0
"""

import decimal
import importlib.metadata
import json
import pathlib
import random
import shutil
import sys

import numpy as np
from PIL import Image
from streaming.base.format.mds.encodings import mds_encode
from streaming.base.format.json.writer import JSONWriter
from streaming.base.format.mds.writer import MDSWriter
from streaming.base.format.xsv.writer import CSVWriter, TSVWriter, XSVWriter

SEED = 17
FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden" / "mds"
NUMBERS = ["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64"]


def sample(rng, i):
    """Returns every encoding's name and a value for it."""
    def array(dtype, *shape):
        return (np.arange(int(np.prod(shape))).reshape(shape) + i).astype(dtype)
    image = Image.fromarray(array("uint8", 3, 5, 3))
    found = {name: (name, getattr(np, name)(i * 7 % 100)) for name in NUMBERS}
    found.update({
        "bytes": ("bytes", bytes(rng.randrange(256) for _ in range(i % 7))), "text": ("str", "Äpfel " * (i % 3) + "\U0001f600"),
        "int": ("int", -i * 10**12), "json": ("json", {"a": [i, None, True, "é"]}), "si": ("str_int", -10**30 - i),
        "sf": ("str_float", 1.5e-7 * (i + 1)), "sd": ("str_decimal", decimal.Decimal("3.14159265358979323846") + i),
        "any": ("ndarray", array(NUMBERS[i % len(NUMBERS)], 2, 1 + i % 300)), "typed": ("ndarray:float32", array("float32", 1 + i % 4)),
        "fixed": ("ndarray:int16:2,3", array("int16", 2, 3)), "wide": ("ndarray", array("uint8", 1, 300)),
        "pil": ("pil", image), "png": ("png", image), "jpeg": ("jpeg", image), "pils": ("list[pil]", [image] * (i % 3)),
        "jpegs": ("list[jpeg]", [image]), "pngs": ("list[png]", [image]), "frames": ("jpeg_array", [mds_encode("jpeg", image)] * (1 + i % 2)),
    })
    return found


def write(name, samples, picked, **options):
    columns = {key: samples[0][key][0] for key in picked}
    folder = FOLDER / name
    with MDSWriter(out=str(folder), columns=columns, **options) as out:
        for values in samples:
            out.write({key: values[key][1] for key in picked})
    return {"name": name, "columns": columns, "compression": options.get("compression", ""), "hashes": options.get("hashes", []),
            "size_limit": options.get("size_limit", 1 << 26),
            "samples": [[mds_encode(columns[key], values[key][1]).hex() for key in sorted(columns)] for values in samples]}


def write_rows(name, writer, **options):
    """Writes text rows; MDS is what a reader of ours makes of them."""
    columns = {"n": "int", "text": "str", "x": "float"}
    rows = [{"n": i - 3, "text": "Äpfel " * (i % 3) + "q\"'", "x": 0.1 * i - 1e-9} for i in range(20)]
    with writer(out=str(FOLDER / name), columns=columns, hashes=["sha1"], **options) as out:
        for row in rows:
            out.write(row)
    encodings = {"n": "int", "text": "str", "x": "float64"}
    return {"name": name, "samples": [[mds_encode(encodings[key], row[key]).hex() for key in columns] for row in rows]}


def main():
    rng = random.Random(SEED)
    samples = [sample(rng, i) for i in range(12)]
    shutil.rmtree(FOLDER, ignore_errors=True)
    every = list(samples[0])
    few = ["int", "text", "bytes", "fixed"]
    sets = [write("every", samples[:5], every, hashes=["blake2b", "blake2s", "md5", "sha1", "sha224", "sha256", "sha384", "sha3_224", "sha3_256", "sha3_384", "sha3_512", "sha512", "xxh128", "xxh32", "xxh3_64", "xxh64"]),
            write("shards", samples, few, size_limit=700, hashes=["sha1"]), write("tiny", samples[:3], ["text"], size_limit=150),
            write("fixed", samples, ["float32", "int"], size_limit=None)]
    for algorithm in ["zstd", "zstd:7", "gz", "bz2:1", "br:5", "snappy"]:
        sets.append(write(algorithm.replace(":", "-"), samples * 4, few, compression=algorithm, hashes=["sha1", "xxh64"], size_limit=2500))
    rows = [write_rows("rows-json", JSONWriter, size_limit=500), write_rows("rows-csv", CSVWriter, size_limit=300, compression="gz"),
            write_rows("rows-tsv", TSVWriter), write_rows("rows-xsv", XSVWriter, separator="||", newline="\r\n", compression="zstd")]
    head = {"note": "MDS data sets; tools/make_mds_goldens.py", "seed": SEED,
            "versions": {p: importlib.metadata.version(p) for p in ["mosaicml-streaming", "numpy", "pillow"]}}
    (FOLDER / "values.json").write_text("{" + json.dumps(head)[1:-1] + ', "sets": [\n' + ",\n".join(json.dumps(s) for s in sets) + "\n], \"rows\": [\n" + ",\n".join(json.dumps(s) for s in rows) + "\n]}\n")
    print(sum(f.stat().st_size for f in FOLDER.rglob("*") if f.is_file()), "bytes", len(sets), "sets")


if __name__ == "__main__":
    sys.exit(main())
