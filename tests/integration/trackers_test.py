"""composer sync over real HTTP, and what trackers' own readers find: a server in this file with MLflow's rules; the real
`mlflow` server and the readers of `wandb` 0.31.0 and `comet_ml` 3.58.8 where COMPOSER_TRACKERS names a virtual environment with them (else these
tests are skipped)."""
import collections
import csv
import http.server
import io
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse
import urllib.request
import zipfile

import harness

PEERS = pathlib.Path(os.environ.get("COMPOSER_TRACKERS", "/tmp/composer-peers/trackers"))
WANDB = sorted(PEERS.glob("lib/python3*/site-packages/wandb/bin/wandb-core"))
GOLDEN = harness.ROOT / "tests/golden/runs/0.1.0/fashion"
# Validates every message of an archive as comet_ml does before it uploads one, and prints their types.
COMET_SCHEMAS = """
import json, sys, zipfile
from comet_ml import schemas
archive = zipfile.ZipFile(sys.argv[1])
schemas.get_experiment_file_validator().validate(json.loads(archive.read('experiment.json')))
validators = {'metric_msg': schemas.get_metric_msg_validator(), 'parameter_msg': schemas.get_parameter_msg_validator(),
              'log_other': schemas.get_log_other_msg_validator(), 'file_upload': schemas.get_upload_msg_validator(),
              'git_metadata': schemas.get_git_metadata_msg_validator()}
for line in archive.read('messages.json').splitlines():
    message = json.loads(line)
    validators[message['type']].validate(message['payload'])
    print(message['type'])
"""
TIME = {"time/epoch", "time/batch", "time/batch_in_epoch", "time/sample", "time/sample_in_epoch", "time/token",
        "time/token_in_epoch", "wall", "launch", "generation"}


class FakeServer(http.server.BaseHTTPRequestHandler):
    """As much of MLflow as a tracker uses. The first two requests of log-batch are applied and then answered with 503."""
    runs, calls, busy = {}, [], [None, None]

    def answer(self, status, body):
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def do_GET(self):
        self.answer(404, {"error_code": "RESOURCE_DOES_NOT_EXIST", "message": "no experiment"})

    def do_PUT(self):
        root, _, path = self.path.removeprefix("/base/api/2.0/mlflow-artifacts/artifacts/1/").partition("/artifacts/")
        self.runs[root]["files"][path] = self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")  # as mlflow 3.17.2
        self.end_headers()

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        name = self.path.removeprefix("/base/api/2.0/mlflow/")
        self.calls.append((name, self.headers.get("authorization")))
        if name == "experiments/create":
            return self.answer(200, {"experiment_id": "1"})
        if name == "runs/create":
            run_id = f"run{len(self.runs)}"
            self.runs[run_id] = {"name": body["run_name"], "metrics": set(), "params": {}, "files": {}, "status": "RUNNING"}
            return self.answer(200, {"run": {"info": {"run_id": run_id, "artifact_uri": f"mlflow-artifacts:/1/{run_id}/artifacts"}}})
        run = self.runs[body["run_id"]]
        if name == "runs/update":
            run["status"] = body["status"]
        if name == "runs/log-batch":
            assert len(body.get("metrics", [])) <= 1000
            run["metrics"] |= {(m["key"], m["step"], m["timestamp"], str(m["value"])) for m in body.get("metrics", [])}
            run["params"].update({p["key"]: p["value"] for p in body.get("params", [])})
            if self.busy:
                self.busy.pop()
                return self.answer(503, {"message": "busy"})
        return self.answer(200, {})

    def log_message(self, *_):
        pass


class TrackerCase(harness.JobTest):
    run_at = None  # the run's folder

    def points(self):
        """The points of metrics.jsonl: (name, batch, milliseconds, value)."""
        found = set()
        for line in (self.run_at / "metrics.jsonl").read_text().splitlines():
            record = json.loads(line)
            for name, value in record.items():
                if name not in TIME:
                    found.add((name, record["time/batch"], round(record["wall"] * 1000), value))
        return found

    def wandb(self, reader, *flags):
        """What the reader of the wandb package prints about the run's offline folder."""
        (file,) = self.run_at.glob("wandb/offline-run-*/run-*.wandb")
        command = [reader, "leet", "inspect", "--no-observability", "--json", *flags, "--run-file", file, file.parent.parent]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    def check_wandb(self, reader):
        """Each point is there once; returns the number of rows."""
        rows = [row for row in map(json.loads, self.wandb(reader).splitlines()) if row["type"] == "history"]
        found = [(name, row["history"]["step"]["num"], value) for row in rows
                 for name, value in row["history"]["item"].items() if not name.startswith("_")]
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual(set(found), {(name, step, value) for name, step, _, value in self.points()})
        return len(rows)

    def check_mlflow(self, run):
        self.assertEqual({(k, s, t, float(v)) for k, s, t, v in run["metrics"]}, {
            (re.sub(r"[^\w./: -]", "_", name), step, time, value) for name, step, time, value in self.points()})

    def serve(self, port):
        """Starts the server with MLflow's rules; before, nobody listens there."""
        FakeServer.runs.clear()
        FakeServer.calls.clear()
        FakeServer.busy.clear()
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), FakeServer)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        return server

    def start_mlflow(self, port):
        """Starts the real server and waits until it answers. Returns its address."""
        uri = f"http://127.0.0.1:{port}"
        server = subprocess.Popen(
            [PEERS / "bin/mlflow", "server", "--backend-store-uri", f"sqlite:///{self.folder}/ml.db", "--host", "127.0.0.1",
             "--port", str(port), "--workers", "1"], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env=dict(os.environ, MLFLOW_DISABLE_TELEMETRY="true", MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false"),
            start_new_session=True)  # its workers are processes, too
        self.addCleanup(server.wait)
        self.addCleanup(lambda: os.killpg(server.pid, signal.SIGKILL))
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{uri}/health", timeout=5).read()
                break
            except OSError:
                self.assertIsNone(server.poll(), "the mlflow server has ended")
                time.sleep(0.5)
        return uri

    def mlflow_points(self, uri, run_id):
        """All points of a run as MLflow's API gives them."""
        query = urllib.parse.urlencode({"run_id": run_id})
        run = json.load(urllib.request.urlopen(f"{uri}/api/2.0/mlflow/runs/get?{query}", timeout=60))["run"]
        found = []
        for name in {metric["key"] for metric in run["data"]["metrics"]}:
            query = urllib.parse.urlencode({"run_id": run_id, "metric_key": name, "max_results": 25000})
            history = json.load(urllib.request.urlopen(f"{uri}/api/2.0/mlflow/metrics/get-history?{query}", timeout=60))
            found += [(name, m.get("step", 0), m["timestamp"], m["value"]) for m in history["metrics"]]
        return found

    def comet_messages(self):
        (archive,) = self.run_at.glob("comet/*.zip")
        with zipfile.ZipFile(archive) as opened:
            return [json.loads(line)["payload"] for line in opened.read("messages.json").splitlines()]

    def check_comet(self):
        """Each point is in the archive once; returns its messages."""
        messages = self.comet_messages()
        found = [(m["metric"]["metricName"], m["metric"]["step"], m["local_timestamp"], m["metric"]["metricValue"])
                 for m in messages if "metric" in m]
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual(set(found), self.points())
        return messages

    def sync(self):
        return subprocess.run([harness.BIN / "composer", "sync", self.run_at], capture_output=True, text=True, timeout=300,
                              env=dict(os.environ, MLFLOW_TRACKING_TOKEN="sesame"), check=False)

class TrackersTest(TrackerCase):
    def setUp(self):
        super().setUp()
        self.run_at = self.folder / "fashion"
        shutil.copytree(GOLDEN, self.run_at, ignore=shutil.ignore_patterns("checkpoints", "logs"))

    def state(self, tracker, settings):
        """What a run leaves behind whose tracker never got through."""
        (self.run_at / "trackers").mkdir(exist_ok=True)
        (self.run_at / f"trackers/{tracker}.json").write_text(json.dumps({
            "tracker": tracker, "run_name": "fashion", "started": 1795373281, "settings": settings,
            "parameters": [["optimizers/lr", "0.003"]]}))

    def test_every_point_of_a_run_arrives_once_over_http(self):
        server = self.serve(0)
        FakeServer.busy[:] = [None, None]
        self.state("mlflow", {"tracking_uri": f"http://127.0.0.1:{server.server_port}/base"})
        tries = [self.sync() for _ in range(4)]
        self.assertEqual(tries[-1].returncode, 0, tries[-1].stderr)
        self.assertEqual(tries[-1].stdout, "fashion: mlflow has everything\n")
        (run,) = FakeServer.runs.values()
        self.assertEqual({(k, s, t, float(v)) for k, s, t, v in run["metrics"]}, self.points())
        self.assertEqual((run["name"], run["status"], run["params"]), ("fashion", "FINISHED", {"optimizers/lr": "0.003"}))
        self.assertEqual({who for _, who in FakeServer.calls}, {"Bearer sesame"})

    def test_an_absent_server_is_named(self):
        self.state("mlflow", {"tracking_uri": f"http://127.0.0.1:{harness.free_port()}"})
        done = self.sync()
        self.assertEqual(done.returncode, 69)
        self.assertIn("MLflow at http://127.0.0.1", done.stderr)

    @unittest.skipUnless((PEERS / "bin/mlflow").exists(), "mlflow is not installed")
    def test_the_real_mlflow_has_the_points(self):
        uri = self.start_mlflow(harness.free_port())
        self.state("mlflow", {"tracking_uri": uri, "experiment_name": "real"})
        for _ in range(2):  # again: nothing is doubled
            done = self.sync()
            self.assertEqual(done.returncode, 0, done.stderr)
        run_id = json.loads((self.run_at / "trackers/mlflow.json").read_text())["notes"]["run_id"]
        found = self.mlflow_points(uri, run_id)
        self.assertEqual(len(found), len(self.points()))
        self.assertEqual(set(found), self.points())

    def test_wandbs_own_reader_has_the_steps(self):
        readers = WANDB
        if not readers:
            self.skipTest("wandb is not installed")
        self.state("wandb", {"project": "p", "tags": "a,b"})
        done = self.sync()
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = self.check_wandb(readers[-1])
        self.assertEqual(rows, len({step for _, step, _, _ in self.points()}))
        summary = json.loads(self.wandb(readers[-1], "--summary"))
        self.assertEqual((summary["state"], summary["exit_code"], summary["project"]), ("finished", 0, "p"))
        self.assertEqual(summary["config"], {"optimizers/lr": "0.003"})


    def test_comets_own_reader_and_schemas_have_the_points(self):
        python = PEERS / "bin/python"
        if not list(PEERS.glob("lib/python3*/site-packages/comet_ml")):
            self.skipTest("comet_ml is not installed")
        (self.run_at / "media").mkdir()
        (self.run_at / "media/a.png").write_bytes(b"a picture")
        (self.run_at / "files.jsonl").write_text(json.dumps({
            "time/batch": 3, "wall": 1795373290, "kind": "image", "name": "Images/Train", "path": "media/a.png"}) + "\n")
        self.state("cometml", {"project_name": "p", "tags": "a,b"})
        done = self.sync()
        self.assertEqual(done.returncode, 0, done.stderr)
        (archive,) = self.run_at.glob("comet/*.zip")
        script = f"import sys; sys.argv = ['comet offline', '--csv', '--level', 'detail', '{archive}']\n" \
                 "from comet_ml.scripts.comet_offline import main; main(sys.argv[1:])"
        read = subprocess.run([python, "-c", script], capture_output=True, text=True, timeout=120, check=True).stdout
        rows = list(csv.reader(io.StringIO(read)))
        self.assertEqual({row[1] for row in rows[1:]}, {"p"})
        counted = collections.Counter((row[5], float(row[6])) for row in rows if row[4] == "metric")
        self.assertEqual(counted, collections.Counter((name, value) for name, _, _, value in self.points()))
        valid = subprocess.run([python, "-c", COMET_SCHEMAS, archive], capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual((valid.returncode, valid.stderr), (0, ""))
        self.assertEqual(set(valid.stdout.split()), {"log_other", "parameter_msg", "metric_msg", "file_upload"})
        with zipfile.ZipFile(archive) as opened:
            found = [json.loads(line)["payload"] for line in opened.read("messages.json").splitlines()]
            self.assertEqual(opened.read("file-0"), b"a picture")
        self.assertEqual({(m["metric"]["metricName"], m["metric"]["step"], m["local_timestamp"], m["metric"]["metricValue"])
                          for m in found if "metric" in m}, self.points())


class CrashTest(TrackerCase):
    """A killed rank, and a server that is away all the time: afterwards every tracker has each point once."""

    def setUp(self):
        super().setUp()
        self.run_at = self.run_folder("crash")

    def test_each_point_once(self):
        port = harness.free_port()
        loggers = {"mlflow": {"tracking_uri": f"http://127.0.0.1:{port}/base", "flush_seconds": 1, "log_artifacts": True},
                   "wandb": {"project": "p", "log_artifacts": True}, "cometml": {"project_name": "p", "log_artifacts": True}}
        _, err = self.run_composer("-n", 2, self.write_job("crash", loggers=loggers, callbacks={"fail_at": {
            "rank": 1, "batch": 17, "how": "kill"}}), timeout=120)
        self.assertIn("composer sync", err)
        self.assertEqual(self.summary("crash")["restarts"], 1)
        self.assertEqual(len([m for m in self.metrics("crash") if "loss/train/total" in m]), 40)
        self.serve(port)
        done = self.sync()
        self.assertEqual(done.returncode, 0, done.stderr)
        (run,) = FakeServer.runs.values()
        self.check_mlflow(run)
        self.assertIn("config.yaml", run["files"])
        self.assertTrue([name for name in run["files"] if name.startswith("checkpoints/ep2-ba40/attempt-")], run["files"])
        messages = self.check_comet()
        self.assertTrue([m for m in messages if m.get("upload_type") == "model-element"])
        (log,) = self.run_at.glob("wandb/offline-run-*/run-*.wandb")
        self.assertIn(b"checkpoint-", log.read_bytes())
        self.assertTrue((log.parent / "files/config.yaml").exists())
        if WANDB:
            self.check_wandb(WANDB[-1])

    def test_a_server_that_comes_back_during_the_run_has_each_point_once(self):
        port = harness.free_port()
        process = self.start("-n", 2, self.write_job(
            "crash", loggers={"mlflow": {"tracking_uri": f"http://127.0.0.1:{port}/base", "flush_seconds": 30}},
            callbacks={"fail_at": {"rank": 1, "batch": 17, "how": "kill"}, "throttle": {"seconds": 0.02}}))
        self.wait_for(lambda: self.run_folder("crash").joinpath("metrics.jsonl").exists() and self.metrics("crash")
                      and self.metrics("crash")[-1].get("generation", 1) > 1, "the second generation")
        self.serve(port)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 0, err)
        self.assertNotIn("composer sync", err)
        (run,) = FakeServer.runs.values()
        self.check_mlflow(run)


class Hook(http.server.BaseHTTPRequestHandler):
    """Slack's incoming web hook."""
    texts = []

    def do_POST(self):
        self.texts.append(json.loads(self.rfile.read(int(self.headers["content-length"])))["text"])
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_):
        pass


@unittest.skipUnless((PEERS / "bin/mlflow").exists(), "mlflow is not installed: tools/trackers_setup.sh")
class MinuteAwayTest(TrackerCase):
    """No server answers for a minute, in which everything is killed and the run is started again."""
    AWAY = 60  # seconds

    def test_every_reader_has_each_point_once(self):
        began, mlflow, slack = time.monotonic(), harness.free_port(), harness.free_port()
        self.run_at = self.run_folder("away")
        Hook.texts.clear()
        env = dict(self.environment(), SLACK_WEBHOOK_URL=f"http://127.0.0.1:{slack}/hook")
        job = self.write_job(
            "away", max_duration="300ba", save_interval="20ba", eval_interval="1ep", eval_dataloader={
                "name": "gaussian_classification", "size": 50, "features": 32, "classes": 10, "sample_seed": 1},
            callbacks={"throttle": {"seconds": 0.3}, "speed_monitor": {"window_size": 2}},
            loggers={"mlflow": {"tracking_uri": f"http://127.0.0.1:{mlflow}", "flush_seconds": 120, "log_artifacts": True,
                                "registered_model": "away"}, "wandb": {"project": "p"},
                     "cometml": {"project_name": "p"}, "tensorboard": None,
                     "slack": {"include_keys": ["loss/train/total"], "log_interval": "50ba", "flush_seconds": 120}})
        first = self.start("-n", 2, job, env=env)
        self.wait_for_batch("away", 63, 120)
        os.killpg(first.pid, signal.SIGKILL)
        first.wait()
        self.wait_for(lambda: not self.workers("away"), "the end of the workers")
        again = self.start("-n", 2, job, env=env)
        while time.monotonic() - began < self.AWAY:
            self.assertIsNone(again.poll(), "the run ends before the servers are there")
            time.sleep(0.1)
        uri = self.start_mlflow(mlflow)
        hook = http.server.ThreadingHTTPServer(("127.0.0.1", slack), Hook)
        threading.Thread(target=hook.serve_forever, daemon=True).start()
        self.addCleanup(hook.server_close)
        self.addCleanup(hook.shutdown)
        _, err = again.communicate(timeout=300)
        self.assertEqual(again.returncode, 0, err)
        self.assertNotIn("composer sync", err)
        self.check(uri)
        texts = list(Hook.texts)
        self.assertEqual(sum("has ended: done" in text for text in texts), 1, texts)
        self.assertEqual(sum("has started" in text or "continues" in text for text in texts), 1, texts)
        told = re.findall(r"batch (\d+)", "".join(texts))
        self.assertEqual(told, [str(batch) for batch in range(50, 301, 50)])
        for _ in range(2):  # nothing is sent again
            done = subprocess.run([harness.BIN / "composer", "sync", self.run_at], capture_output=True, text=True, timeout=300,
                                  env=env, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(Hook.texts, texts)
        self.check(uri)

    def check(self, uri):
        run_id = json.loads((self.run_at / "trackers/mlflow.json").read_text())["notes"]["run_id"]
        found = self.mlflow_points(uri, run_id)
        self.assertEqual(len(found), len(set(found)))
        self.assertEqual({(k, s, t, float(v)) for k, s, t, v in found}, {
            (re.sub(r"[^\w./: -]", "_", name), step, at, value) for name, step, at, value in self.points()})
        query = urllib.parse.urlencode({"filter": "name='away'"})
        versions = json.load(urllib.request.urlopen(f"{uri}/api/2.0/mlflow/model-versions/search?{query}", timeout=60))["model_versions"]
        self.assertEqual([(version["run_id"], version["source"].rpartition("-")[2]) for version in versions], [(run_id, "ba300")])
        self.check_comet()
        if WANDB:
            self.check_wandb(WANDB[-1])
        self.check_tensorboard()

    def check_tensorboard(self):
        sys.path.append(str(harness.ROOT / ".deps/tensorboard"))
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        accumulator = EventAccumulator(str(self.run_at / "tensorboard"), size_guidance={"scalars": 0}).Reload()
        found = [(tag, event.step, event.value) for tag in accumulator.Tags()["scalars"] for event in accumulator.Scalars(tag)]
        float32 = struct.Struct("<f")
        self.assertEqual(collections.Counter(found), collections.Counter(
            (name, step, float32.unpack(float32.pack(value))[0]) for name, step, _, value in self.points()))


if __name__ == "__main__":
    unittest.main()
