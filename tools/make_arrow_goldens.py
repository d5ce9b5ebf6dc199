#!/usr/bin/env python3
"""Writes tests/golden/tables: the same rows as Parquet and Arrow files, and as JSON what must be read of them. Needs
pyarrow 26.0.1: PYTHON tools/make_arrow_goldens.py
SPDX-License-Identifier: Apache-2.0"""
import datetime
import decimal
import json
import pathlib

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/tables"
ROWS = 10


def table():
    n = range(ROWS)
    chats = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    picture = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    columns = {
        "id": pa.array([i - 3 for i in n], pa.int64()),
        "small": pa.array([250 + i % 6 for i in n], pa.uint8()),
        "flag": pa.array([i % 3 == 0 for i in n], pa.bool_()),
        "score": pa.array([i / 8 for i in n], pa.float32()),
        "exact": pa.array([i / 3 for i in n], pa.float64()),
        "half": pa.array([np.float16(i / 4) for i in n], pa.float16()),
        "text": pa.array([f"row {i} \u00e9\U0001f600" for i in n], pa.string()),
        "large": pa.array(["x" * i for i in n], pa.large_string()),
        "word": pa.array([["red", "green", None][i % 3] for i in n], pa.string()).dictionary_encode(),
        "blob": pa.array([bytes([i, 0, 255]) for i in n], pa.binary()),
        "ids": pa.array([list(range(i)) for i in n], pa.list_(pa.int32())),
        "weights": pa.array([[i / 2, -1.0] for i in n], pa.list_(pa.float32(), 2)),
        "messages": pa.array([[{"role": "user", "content": f"q{i}"}, {"role": "assistant", "content": None}] for i in n],
                             chats),
        "image": pa.array([{"bytes": b"\xff\xd8" + bytes([i]), "path": f"{i}.jpg"} for i in n], picture),
        "when": pa.array([datetime.datetime(2026, 1, 1 + i) for i in n], pa.timestamp("ms")),
        "price": pa.array([decimal.Decimal(i).scaleb(-2) for i in n], pa.decimal128(8, 2)),
        "maybe": pa.array([None if i % 2 else f"m{i}" for i in n], pa.string()),
    }
    return pa.table(columns)


def expected(name, value):
    if value is None:
        return None
    if name == "image":
        return value["bytes"].hex()
    if name == "blob":
        return value.hex()
    if name == "when":
        return int(value.replace(tzinfo=datetime.timezone.utc).timestamp() * 1000)
    if name == "price":
        return str(value)
    if name == "messages":
        return json.dumps(value, separators=(",", ":"))
    if name in ("small", "flag"):
        return int(value)
    return float(value) if name in ("half",) else value


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    rows = table()
    pq.write_table(rows, FOLDER / "rows.parquet", row_group_size=4, compression="zstd")
    pq.write_table(rows, FOLDER / "snappy.parquet", row_group_size=100, compression="snappy")
    pa.feather.write_feather(rows, FOLDER / "compressed.feather", compression="lz4", chunksize=4)
    with pa.ipc.new_file(FOLDER / "rows.arrow", rows.schema) as file:
        file.write_table(rows, max_chunksize=4)
    with pa.ipc.new_stream(FOLDER / "stream.arrow", rows.schema) as stream:  # as datasets' save_to_disk writes
        stream.write_table(rows, max_chunksize=3)
    # Columns that cannot be read, and other types under known names.
    pq.write_table(pa.table({"text": ["a"], "big": pa.array([2**64 - 1], pa.uint64()),
                             "gap": pa.array([[1, None]], pa.list_(pa.int64()))}), FOLDER / "hard.parquet")
    pq.write_table(pa.table({"text": [1]}), FOLDER / "other.parquet")
    # For tests/integration/tables_test.py.
    documents = pa.table({"text": [f"document {i} says {'abc ' * (i % 7)}" for i in range(60)],
                          "left": pa.array([i % 5 / 4 for i in range(60)], pa.float32()),
                          "right": pa.array([i % 3 for i in range(60)], pa.int16()),
                          "class": pa.array([i % 4 for i in range(60)], pa.int64())})
    pq.write_table(documents, FOLDER / "documents.parquet", row_group_size=16, compression="snappy")
    # For fine-tuning: chats, and prompts with responses.
    said = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string())]))
    turns = [[{"role": "user", "content": f"hi{i}"}, {"role": "assistant", "content": f"yo{i}"}] for i in range(3)]
    pq.write_table(pa.table({"id": [0, 1, 2], "messages": pa.array(turns, said)}), FOLDER / "chats.parquet")
    with pa.ipc.new_file(FOLDER / "prompts.arrow", pa.schema([("prompt", pa.string()), ("response", pa.string())])) as file:
        file.write_table(pa.table({"prompt": ["ab", "q"], "response": ["cde", "a"]}))
    read = [{name: expected(name, value) for name, value in row.items()} for row in rows.to_pylist()]
    (FOLDER / "rows.json").write_text(json.dumps({"pyarrow": pa.__version__, "rows": read}, indent=1) + "\n")


if __name__ == "__main__":
    main()
