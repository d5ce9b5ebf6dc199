#!/usr/bin/env python3
"""TensorBoard and MLflow on what benchmarks/runs.py writes for `composer runs`: seconds from the start of the server to the
first list of all runs with the newest value of one metric, and to the curve of one run.

  benchmarks/peers/run_views.py --folder DIR [--runs 1000] [--metrics 100] [--steps 1000] [--limit 300]

Run it with the Python of a virtual environment that has tensorboard and mlflow. Every run has the same event file (by
hard links, so that the page cache holds it: the best case). MLflow's database is filled by SQL with --mlflow-steps of the
steps, because a list of runs reads its table of newest values alone. SPDX-License-Identifier: Apache-2.0"""
import argparse
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request

BIN = pathlib.Path(sys.executable).parent


def names(arguments):
    return ["loss/train/total", "metrics/eval/CrossEntropy"] + [f"metric/{i:03d}" for i in range(arguments.metrics - 2)]


def ask(url, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def wait(condition, began, limit):
    """Returns the seconds since `began` when the condition came true, or None."""
    while time.monotonic() - began < limit:
        try:
            if condition():
                return time.monotonic() - began
        except OSError:
            pass
        time.sleep(0.1)
    return None


def processor_seconds(session):
    """Of all processes of the session."""
    total = 0
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session:
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def serve(command, measure, limit):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    began = time.monotonic()
    process = subprocess.Popen([*map(str, command), "--port", str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        times = measure(f"http://127.0.0.1:{port}", began, limit)
        return times, processor_seconds(process.pid)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def write_events(root, arguments):
    from tensorboard.compat.proto import event_pb2, summary_pb2
    from tensorboard.summary.writer.event_file_writer import EventFileWriter
    first = root / "run-0000"
    writer = EventFileWriter(str(first))
    for step in range(1, arguments.steps + 1):
        values = [summary_pb2.Summary.Value(tag=name, simple_value=1 / (step + i)) for i, name in enumerate(names(arguments))]
        writer.add_event(event_pb2.Event(wall_time=1.7e9 + step, step=step, summary=summary_pb2.Summary(value=values)))
    writer.close()
    [file] = first.iterdir()
    for run in range(1, arguments.runs):
        (root / f"run-{run:04d}").mkdir()
        os.link(file, root / f"run-{run:04d}" / file.name)


def tensorboard(root, arguments):
    def measure(address, began, limit):
        tags = address + "/data/plugin/scalars/tags"
        complete = wait(lambda: len([r for r, t in ask(tags).items() if len(t) == arguments.metrics]) == arguments.runs, began, limit)
        if complete is None:
            return None, None, len(ask(tags))
        query = urllib.parse.urlencode({"run": "run-0500" if arguments.runs > 500 else "run-0000", "tag": "loss/train/total"})
        ask(f"{address}/data/plugin/scalars/scalars?{query}")
        return complete, time.monotonic() - began, arguments.runs
    return serve([BIN / "tensorboard", "--logdir", root, "--load_fast", arguments.load_fast], measure, arguments.limit)


def fill(database, arguments):
    """Writes runs, metrics and newest values as MLflow's own tables have them."""
    connection = sqlite3.connect(database)
    steps = range(1, arguments.mlflow_steps + 1)
    for number in range(arguments.runs):
        run = f"{number:032x}"
        connection.execute("insert into runs (run_uuid, name, source_type, source_name, user_id, status, start_time, end_time, "
                           "lifecycle_stage, artifact_uri, experiment_id) values (?, ?, 'LOCAL', '', 'u', 'FINISHED', 1, 2, 'active', "
                           "'file:///tmp/x', 0)", (run, f"run-{number:04d}"))
        for i, name in enumerate(names(arguments)):
            connection.executemany("insert into metrics (key, value, timestamp, run_uuid, step, is_nan) values (?, ?, ?, ?, ?, 0)",
                                   [(name, 1 / (step + i), 1700000000000 + step, run, step) for step in steps])
            connection.execute("insert into latest_metrics (key, value, timestamp, step, is_nan, run_uuid) values (?, ?, ?, ?, 0, ?)",
                               (name, 1 / (steps[-1] + i), 1700000000000 + steps[-1], steps[-1], run))
    connection.commit()


def mlflow(root, arguments):
    database = root / "mlflow.db"
    subprocess.run([BIN / "mlflow", "db", "upgrade", f"sqlite:///{database}"], check=True, capture_output=True)
    subprocess.run([sys.executable, "-c", f"import mlflow; mlflow.MlflowClient('sqlite:///{database}').search_experiments()"], check=True)
    fill(database, arguments)

    def measure(address, began, limit):
        search = {"experiment_ids": ["0"], "max_results": 1000, "order_by": ["metrics.`loss/train/total` ASC"]}
        complete = wait(lambda: len(ask(f"{address}/api/2.0/mlflow/runs/search", search)["runs"]) == min(1000, arguments.runs), began, limit)
        if complete is None:
            return None, None, 0
        query = urllib.parse.urlencode({"run_id": f"{0:032x}", "metric_key": "loss/train/total", "max_results": 25000})
        ask(f"{address}/api/2.0/mlflow/metrics/get-history?{query}")
        return complete, time.monotonic() - began, arguments.runs
    return serve([BIN / "mlflow", "server", "--backend-store-uri", f"sqlite:///{database}", "--workers", "1"], measure, arguments.limit)


def main():
    parser = argparse.ArgumentParser()
    for name, default in (("runs", 1000), ("metrics", 100), ("steps", 1000), ("mlflow-steps", 10), ("limit", 300)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--load-fast", default="auto")
    parser.add_argument("--folder")
    parser.add_argument("--only", choices=["tensorboard", "mlflow"])
    arguments = parser.parse_args()
    for name, write, measure in (("tensorboard", write_events, tensorboard), ("mlflow", None, mlflow)):
        if arguments.only not in (None, name):
            continue
        root = pathlib.Path(tempfile.mkdtemp(prefix="run-views-", dir=arguments.folder))
        try:
            if write:
                write(root, arguments)
            (listed, drawn, seen), processors = measure(root, arguments)
            said = f"not in {arguments.limit} s ({seen} runs seen)" if listed is None else f"list {listed:.1f} s, one curve {drawn:.1f} s"
            print(f"{name}: {said}, processors {processors:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)
        finally:
            shutil.rmtree(root)


if __name__ == "__main__":
    main()
