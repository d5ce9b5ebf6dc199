"""Runs a program for a benchmark: its time is bounded, and none of its processes is left afterwards.

Every process of a job carries BENCH_TAG=<unique> in its environment, so leftovers are found even when they have their
own session (torchrun's and our workers do) or have lost their parent. Linux only.
SPDX-License-Identifier: Apache-2.0
"""

import json
import os
import pathlib
import select
import signal
import socket
import subprocess
import tempfile
import time
import uuid

# Settings of the caller that would make the peers look slow.
SLOWS_PYTHON = ("PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def processes_with(needle, where):
    """Returns the pids whose /proc/<pid>/<where> ("environ" or "cmdline") contains the bytes `needle`; zombies have
    neither."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                if needle in pathlib.Path(f"/proc/{entry}/{where}").read_bytes():
                    found.append(int(entry))
            except OSError:
                pass  # gone, or not ours
    return sorted(found)


class BoundedJob:
    """Use as `with BoundedJob(argv) as job: ...`; at the end of the block every process of the job is gone.

    start_unix and start are taken just before exec. The output (both streams) goes to a file: output().
    """

    def __init__(self, argv, env=None, cwd=None):
        self.argv = [str(arg) for arg in argv]
        self.tag = f"BENCH_TAG={uuid.uuid4().hex}"
        kept = {name: value for name, value in os.environ.items() if name not in SLOWS_PYTHON}
        self.env = {**kept, "OMP_NUM_THREADS": "1", **(env or {})}
        self.env.update([self.tag.split("=")])
        self.cwd = cwd
        self.exit_code = None

    def __enter__(self):
        self.log = tempfile.NamedTemporaryFile("w+b", prefix="bench-", suffix=".log")
        self.start_unix, self.start = time.time(), time.monotonic()
        self.process = subprocess.Popen(self.argv, env=self.env, cwd=self.cwd, stdin=subprocess.DEVNULL,
                                        stdout=self.log, stderr=subprocess.STDOUT, start_new_session=True)
        self.pidfd = os.pidfd_open(self.process.pid)
        return self

    def __exit__(self, *_):
        self.stop(grace=0)
        os.close(self.pidfd)
        self.log.close()

    def wait(self, timeout):
        """Returns the seconds from exec to exit, or None when it runs past `timeout`. Does not poll: exact to well
        under 1 ms."""
        ready, _, _ = select.select([self.pidfd], [], [], max(0, timeout))
        if not ready:
            return None
        elapsed = time.monotonic() - self.start
        self.exit_code = self.process.wait()
        return elapsed

    def running(self):
        return self.process.poll() is None

    def stop(self, grace):
        """Sends SIGTERM, waits `grace` seconds, then sends SIGKILL to whatever carries the tag."""
        if grace and self.running():
            self.process.terminate()
            self.wait(grace)
        for _ in range(100):
            leftovers = processes_with(self.tag.encode(), "environ")
            for pid in leftovers:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            if self.running():
                self.process.kill()
                self.process.wait()
            if not leftovers:
                return
            time.sleep(0.02)
        raise RuntimeError(f"cannot end the processes {leftovers} of {self.argv}")

    def output(self, last=2000):
        text = pathlib.Path(self.log.name).read_bytes()[-last:]
        return text.decode(errors="replace")


def run_to_exit(argv, timeout, **kwargs):
    """Returns (seconds from exec to exit, output). Raises RuntimeError when it takes longer or fails."""
    with BoundedJob(argv, **kwargs) as job:
        elapsed = job.wait(timeout)
        if elapsed is None or job.exit_code != 0:
            how = f"ran past {timeout} s" if elapsed is None else f"exited with {job.exit_code}"
            raise RuntimeError(f"{' '.join(job.argv)}: {how}\n{job.output()}")
        return elapsed, job.output(last=1 << 20)


def json_rows(argv, timeout):
    """Returns what the program printed as JSON lines."""
    _, output = run_to_exit(argv, timeout)
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


def step_rounds(name, commands, repeats, timeout):
    """Returns (milliseconds, CPU milliseconds): for each program a list by name of its rows {"name", "ms_per_step",
    "cpu_ms_per_step"}, one per round."""
    samples, cpu = {}, {}
    for round_ in range(repeats):
        for argv in commands:
            for row in json_rows(argv, timeout):
                samples.setdefault(row["name"], []).append(row["ms_per_step"])
                cpu.setdefault(row["name"], []).append(row["cpu_ms_per_step"])
        print(f"{name}, round {round_ + 1}: " + ", ".join(f"{k} {v[-1]:.3f} ms" for k, v in samples.items()))
    return samples, cpu
