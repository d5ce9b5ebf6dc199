"""Runs the real binaries in a folder of the test's own. Uses only Python's standard library.

COMPOSER_BIN is the folder with composer and composer_worker (set by ctest)."""
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

BIN = pathlib.Path(os.environ.get("COMPOSER_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/release/bin"))
ROOT = pathlib.Path(__file__).resolve().parents[2]

# A job that takes a second, but is long enough to be killed: an MLP on synthetic data, 40 batches in epochs of 16.
TINY_JOB = {
    "seed": 7,
    "model": {"name": "mlp", "sizes": [32, 64, 64, 10]},
    "train_dataloader": {"name": "gaussian_classification", "size": 250, "features": 32, "classes": 10},
    "global_train_batch_size": 16,
    "optimizers": {"name": "decoupled_adamw", "lr": 0.001, "weight_decay": 1e-5},
    "schedulers": {"name": "cosine_annealing_with_warmup", "t_warmup": "5ba"},
    "max_duration": "40ba",
    "save_interval": "10ba",
    "save_num_checkpoints_to_keep": -1,
}


def free_port():
    """Returns a port outside the range of outgoing connections, so that none takes it before the ranks do."""
    while True:
        with socket.socket() as probe:
            port = random.randrange(20000, 32000)
            try:
                probe.bind(("", port))
                return port
            except OSError:
                pass


def wait_until(condition, what, timeout=30, pause=0.005):
    """Returns the condition's value once it is true."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause)
    raise AssertionError(f"{what}: not within {timeout} s")


class JobTest(unittest.TestCase):
    bin = BIN

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="composer-it-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def write_job(self, name, **changes):
        """Writes job.yaml with TINY_JOB and changes (None removes a key); JSON is YAML."""
        job = dict(TINY_JOB, run_name=name, run_folder=str(self.folder / "runs" / name))
        job.update(changes)
        path = self.folder / f"{name}.yaml"
        path.write_text(json.dumps({k: v for k, v in job.items() if v is not None}, indent=1))
        return path

    def run_folder(self, name):
        return self.folder / "runs" / name

    def environment(self):
        # Variables of an outer launcher must not leak in.
        drop = re.compile(
            r"^(RANK|WORLD_SIZE|LOCAL_RANK|LOCAL_WORLD_SIZE|NODE_RANK|MASTER_|COMPOSER_|TORCHELASTIC_|RUN_NAME|SLURM_|OMPI_|PMI_)")
        return {k: v for k, v in os.environ.items() if not drop.match(k)}

    def start_program(self, command, **options):
        """Starts a program in a session of its own, which ends with the test."""
        process = subprocess.Popen(list(map(str, command)), cwd=options.pop("cwd", self.folder),
                                   env=options.pop("env", None) or self.environment(),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                                   start_new_session=True, **options)

        def end():
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            for stream in (process.stdout, process.stderr):
                stream.close()
        self.addCleanup(end)
        return process

    def start(self, *args, **options):
        return self.start_program([self.bin / "composer", *args], **options)

    def run_composer(self, *args, code=0, timeout=60, **options):
        process = self.start(*args, **options)
        out, err = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, code,
                         f"composer {' '.join(map(str, args))}\nstdout:\n{out}\nstderr:\n{err}")
        return out, err

    def summary(self, name):
        return json.loads((self.run_folder(name) / "summary.json").read_text())

    def metrics(self, name):
        path = self.run_folder(name) / "metrics.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def losses(self, name):
        return [m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m]

    def assert_same_losses(self, ours, theirs):
        self.assertEqual(len(ours), len(theirs))
        for a, b in zip(ours, theirs):
            self.assertAlmostEqual(a, b, places=4)

    def newest_checkpoint(self, name):
        return self.summary(name)["last_checkpoint"]

    def assert_same_state(self, one, other):
        out, _ = self.run_composer("checkpoint", "diff", one, other)
        return out

    def take_records(self, name, ranks):
        """Returns {batch: ids} of the batches that all ranks recorded since the last call, and forgets them."""
        batches = {}
        for rank in range(ranks):
            path = self.run_folder(name) / f"logs/samples-rank{rank}.jsonl"
            for line in path.read_text().splitlines(keepends=True) if path.exists() else []:
                if line.endswith("\n"):
                    record = json.loads(line)
                    batches.setdefault(record["batch"], {})[rank] = record["sample_ids"]
            path.unlink(missing_ok=True)
        return {batch: sum((parts[rank] for rank in range(ranks)), []) for batch, parts in batches.items()
                if len(parts) == ranks}

    wait_for = staticmethod(wait_until)

    def wait_for_batch(self, name, batch, timeout=30):
        self.wait_for(lambda: any(m.get("time/batch", 0) >= batch for m in self.complete_metrics(name)),
                      f"batch {batch}", timeout)

    def complete_metrics(self, name):
        path = self.run_folder(name) / "metrics.jsonl"
        text = path.read_text() if path.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def workers(self, name):
        """Returns {rank: pid} of the job's live workers, which have the run folder in their command line."""
        found = {}
        for entry in pathlib.Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                command = (entry / "cmdline").read_bytes().split(b"\0")
                if not command[0].endswith(b"composer_worker") or str(
                        self.run_folder(name)).encode() not in b" ".join(command):
                    continue
                environment = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            rank = [v for v in environment if v.startswith(b"RANK=")]
            if rank:
                found[int(rank[0][5:])] = int(entry.name)
        return found
