#!/usr/bin/env python3
"""Damages a small checkpoint of ours and of the peers, bit by bit and length by length, and counts what a load notices.

    benchmarks/damage.py                 every bit and every length (minutes of two cores, nearly all for the Python
                                         Composer)
    benchmarks/damage.py --every 16      of the peers one bit of 16 and every second length

Ours is tests/checkpoint/corruption_test.cc, which fails when one case is not rejected; it is always exhaustive, on a
checkpoint of two ranks. The peers' is benchmarks/peers/checkpoint_damage.py. Writes docs/results/damage.{json,md}.
SPDX-License-Identifier: Apache-2.0
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import programs
import report

PEERS = {"torch": ("torch.save, torch.load(weights_only)", "torch"), "safetensors": ("safetensors", "torch"),
         "dcp": ("torch DCP", "torch"), "composer": ("Python Composer", "mosaic")}
TESTS = {"flip": "EveryFlippedBitOfEveryFileIsFound", "truncation": "EveryTruncationAndEveryAdditionIsFound"}
LIMIT_S = 4 * 3600


def ours(test):
    """Runs a test that fails when one case is not detected, and returns how many cases it tried."""
    result = {"peer": "ours", "every": 1}
    with tempfile.TemporaryDirectory() as folder:
        for kind, name in TESTS.items():
            report_file = pathlib.Path(folder) / "report.json"
            subprocess.run([test, f"--gtest_filter=*Corruption.{name}/*", f"--gtest_output=json:{report_file}"],
                           check=True, stdout=subprocess.DEVNULL, timeout=LIMIT_S)
            suite, = json.loads(report_file.read_text())["testsuites"]
            cases = sum(int(case["cases"]) for case in suite["testsuite"])  # of whole tensors and of shards
            result[kind] = {"cases": cases, "detected": cases}
    return result


def peer(name, python, every):
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        done = subprocess.run([python, programs.SCRIPTS / "checkpoint_damage.py", name, f"{folder}/checkpoint",
                               "--every", str(every)],
                              check=True, capture_output=True, text=True, timeout=LIMIT_S)
    return json.loads(done.stdout.splitlines()[-1])


def share(counts, word):
    count = counts.get(word, 0)
    return f"{count} ({100 * count / counts['cases']:.1f} %)" if count else "0"


def table(rows, kind):
    lines = [
        "| loader | cases | detected | loads what was saved | **loads something else** | of that only random states | dies |",
        "|---|---|---|---|---|---|---|"]
    for title, row in rows:
        counts = row[kind]
        random = counts.get("wrong_rng", 0)
        wrong = {"cases": counts["cases"], "wrong": counts.get("wrong", 0) + random}
        every = row["every"] if kind == "flip" else max(1, row["every"] // 8)
        cases = f"{counts['cases']}" + (f" (1 of {every})" if every > 1 else " (all)")
        lines.append(
            f"| {title} | {cases} | {share(counts, 'detected')} | {share(counts, 'harmless')} | {share(wrong, 'wrong')} "
            f"| {share(counts, 'wrong_rng')} | {share(counts, 'died')} |")
    return "\n".join(lines)


def write(folder, rows, host, command):
    text = f"""# What a load notices of a damaged checkpoint

{host['date']}, commit {host['commit']}. Made by `{command}`. Each single flipped bit of every file, and every file cut at every length.

## One flipped bit

{table(rows, 'flip')}

## Cut off

{table(rows, 'truncation')}

- *detected*: the load refuses, with an exception or, ours, by falling back to the checkpoint before it, with the file and the reason.
- *loads what was saved*: the damage was in bytes that this loader does not look at. Ours refuses these too.
- *loads something else*: it returns, and tensors, optimizer state, step or random number states differ from what was saved.
- Ours has a checksum on everything (docs/checkpoint_format.md). torch writes a CRC32 of each record and does not compare it.
  DCP's `CheckpointException` is a `BaseException`: `except Exception` does not catch it.
- A checkpoint of this size is mostly headers, in which damage is easy to see; of a large one nearly all bits are tensors', for
  which torch.save, DCP and safetensors compare no checksum.
"""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "damage.md").write_text(text)
    (folder / "damage.json").write_text(json.dumps({"machine": host, "command": command,
                                                    "rows": [row for _, row in rows]}, indent=1) + "\n")
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--every", type=int, default=1,
                        help="of the peers, one bit of this many, and one length of an eighth of it")
    parser.add_argument("--test", type=pathlib.Path,
                        default=programs.REPOSITORY / "build" / "release" / "tests" / "checkpoint_test")
    parser.add_argument("--results", type=pathlib.Path, default=programs.REPOSITORY / "docs" / "results")
    options = parser.parse_args()
    known = programs.Programs(programs.REPOSITORY / "build" / "release")
    rows = [("ours", ours(options.test))]
    for name, (title, environment) in PEERS.items():
        rows.append((title, peer(name, getattr(known, environment) / "python", options.every)))
        print(json.dumps(rows[-1][1]), flush=True)
    print(write(options.results, rows, report.machine(),
                "benchmarks/damage.py" + (f" --every {options.every}" if options.every > 1 else "")))


if __name__ == "__main__":
    sys.exit(main())
