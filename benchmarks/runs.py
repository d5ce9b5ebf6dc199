#!/usr/bin/env python3
"""Times `composer runs` and `composer plot` on 1,000 runs of 100 metrics and 1,000 steps (1e8 values): the clock, and
the processors' seconds, which a busy machine does not change. Needs 3 GB below --folder; nothing is left there.

  benchmarks/runs.py [--runs 1000] [--metrics 100] [--steps 1000] [--folder DIR]"""
import argparse
import json
import os
import pathlib
import resource
import shutil
import statistics
import subprocess
import tempfile
import time

BIN = pathlib.Path(os.environ.get("COMPOSER_BIN", pathlib.Path(__file__).resolve().parent.parent / "build/release/bin"))


def write_runs(root, arguments):
    """Every run has the same lines but for its name: what is measured is reading."""
    names = ["loss/train/total", "metrics/eval/CrossEntropy"]
    names += [f"metric/{i:03d}" for i in range(arguments.metrics - len(names))]
    lines = []
    for step in range(1, arguments.steps + 1):
        record = {"time/epoch": 0, "time/batch": step, "time/sample": 8 * step, "wall": 1.7e9 + step, "generation": 1}
        record.update({name: round(1 / (step + i), 6) for i, name in enumerate(names)})
        lines.append(json.dumps(record, separators=(",", ":")))
    text = "\n".join(lines) + "\n"
    for run in range(arguments.runs):
        folder = root / f"run-{run:04d}"
        folder.mkdir()
        (folder / "metrics.jsonl").write_text(text)
        (folder / "summary.json").write_text(json.dumps({"run_name": folder.name, "exit_reason": "done", "steps": 1}))
    return len(text)


def seconds(command, times=5):
    taken, before = [], resource.getrusage(resource.RUSAGE_CHILDREN)
    for _ in range(times):
        begin = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        taken.append(time.monotonic() - begin)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / times
    return statistics.median(taken), min(taken), processor, done.stdout


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("runs", 1000), ("metrics", 100), ("steps", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--folder")
    arguments = parser.parse_args()
    root = pathlib.Path(tempfile.mkdtemp(prefix="composer-runs-", dir=arguments.folder))
    try:
        size = write_runs(root, arguments)
        print(f"{arguments.runs} runs, {size / 1e6:.2f} MB each; load {os.getloadavg()[0]:.1f}")
        composer = str(BIN / "composer")
        cases = {
            "runs": [composer, "runs", str(root)],
            "runs --json": [composer, "runs", str(root), "--json"],
            "runs, sorted by a metric": [composer, "runs", str(root), "--sort", "metric/050", "--limit", "20"],
            "plot of one run": [composer, "plot", str(root / "run-0000"), "loss/train/total"],
        }
        for name, command in cases.items():
            median, best, processor, output = seconds(command)
            print(f"{name:28s} median {median:.3f} s, best {best:.3f} s, processors {processor:.3f} s, "
                  f"{len(output.splitlines())} lines")
    finally:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
