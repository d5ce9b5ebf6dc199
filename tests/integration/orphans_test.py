"""Nothing of a job outlives its launcher, whatever kills it. The processes are real and include a daemon of each rank
(setsid, forked twice).

Needs only the composer binary."""
import contextlib
import os
import pathlib
import pty
import signal
import subprocess
import sys
import time
import unittest

import harness

# A rank that leaves a daemon behind, which has its own session and no parent. The daemon ignores every signal it can,
# and so does the rank.
RANK = """
import os, signal, sys, time
for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(s, signal.SIG_IGN if "stubborn" in sys.argv else signal.SIG_DFL)
if os.fork() == 0:
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir("/")
    print_to = os.environ["FOLDER"] + "/daemon-" + os.environ["RANK"]
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    open(print_to, "w").write(str(os.getpid()))
    time.sleep(1000)
    os._exit(0)
os.wait()
helper = os.fork()
if helper == 0:
    time.sleep(1000)
open(os.environ["FOLDER"] + "/helper-" + os.environ["RANK"], "w").write(str(helper))
open(os.environ["FOLDER"] + "/rank-" + os.environ["RANK"], "w").write(str(os.getpid()))
time.sleep(1000)
"""
LIMIT_S = 1.0  # the promise; the tests wait longer, since the machine may be loaded
PATIENCE_S = 5.0


def alive(pid):
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rsplit(") ", 1)[1][0] != "Z"
    except (OSError, IndexError):
        return False


def descendants(pid):
    found, queue = [], [pid]
    while queue:
        for children in pathlib.Path(f"/proc/{queue.pop()}/task").glob("*/children"):
            try:
                queue += [int(c) for c in children.read_text().split()]
            except OSError:
                pass
        found = sorted(set(found + queue))
    return found


def command_name(pid):
    try:
        return (pathlib.Path("/proc") / str(pid) / "comm").read_text().strip()
    except OSError:
        return ""


class OrphansTest(harness.JobTest):
    def arguments(self, *words):
        return [str(harness.BIN / "composer"), "-n", "2", "-c", sys.executable, "-c", RANK, *words]

    def environment(self):
        return dict(super().environment(), FOLDER=str(self.folder), TMPDIR=str(self.folder),
                    COMPOSER_RUNTIME_DIR=str(self.folder / "runtime"))

    def begin(self, *words, **options):
        """Returns (process, every pid of the job) once both ranks have started everything."""
        process = subprocess.Popen(self.arguments(*words), env=self.environment(), stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
                                   **options)
        self.addCleanup(lambda: process.poll() is None and (process.kill(), process.wait()))
        return process, self.everything(process.pid)

    def everything(self, launcher):
        names = [f"{kind}-{rank}" for kind in ("daemon", "helper", "rank") for rank in (0, 1)]
        self.wait_for(lambda: all((self.folder / n).exists() and (self.folder / n).read_text() for n in names),
                      "six processes")
        pids = {int((self.folder / n).read_text()) for n in names} | set(descendants(launcher)) | {launcher}
        self.assertGreaterEqual(len(pids), 9, "launcher, spawner, rendezvous, two ranks, two helpers, two daemons")
        for pid in pids:
            self.assertTrue(alive(pid))
        self.addCleanup(lambda: [os.kill(p, signal.SIGKILL) for p in pids if alive(p)])
        return pids

    def expect_all_gone(self, pids, killed_at, what):
        self.wait_for(lambda: not any(alive(p) for p in pids), f"{what}: all {len(pids)} processes gone", PATIENCE_S)
        print(
            f"{what}: {len(pids)} processes gone after {1000 * (time.monotonic() - killed_at):.0f} ms (goal {LIMIT_S:.0f} s)")
        self.wait_for(lambda: not list(self.folder.glob("composer-*")), "temporary folder removed", PATIENCE_S)

    def test_sigkill_of_the_launcher(self):
        process, pids = self.begin("stubborn")
        at = time.monotonic()
        process.kill()
        process.wait()
        self.expect_all_gone(pids, at, "kill -9 launcher")

    def test_sigkill_of_launcher_and_spawner_together(self):
        process, pids = self.begin("stubborn")
        doomed = [p for p in pids if command_name(p).startswith("composer")]  # found by `pkill -9 composer`
        self.assertGreaterEqual(len(doomed), 3, "launcher, spawner, rendezvous")
        at = time.monotonic()
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError):  # one process may already have ended with another
                os.kill(pid, signal.SIGKILL)
        process.wait()
        self.expect_all_gone(pids, at, "pkill -9 composer")

    def test_sigkill_of_the_spawner(self):
        process, pids = self.begin("stubborn")
        spawner = [p for p in pids if command_name(p) == "composer-spawn"]
        at = time.monotonic()
        os.kill(spawner[0], signal.SIGKILL)
        self.assertEqual(process.wait(PATIENCE_S), 70)
        self.expect_all_gone(pids, at, "kill -9 spawner")

    def test_what_is_left_of_a_launch_killed_as_a_whole_goes_at_the_next_start(self):
        process, pids = self.begin("stubborn")
        doomed = [p for p in pids if command_name(p).startswith(("composer", "launch-reaper"))]
        self.assertGreaterEqual(len(doomed), 4, "launcher, spawner, rendezvous, orphan reaper")
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in doomed:
                os.kill(pid, number)
        process.wait()
        for pid in filter(alive, pids):  # the daemons: nobody was left who could find them
            os.kill(pid, signal.SIGKILL)
        left = list(self.folder.glob("composer-*"))
        entries = list((self.folder / "runtime").glob("*.json"))
        self.assertEqual((len(left), len(entries)), (1, 1), "the temporary folder, and what `composer status` reads")
        cgroup = [p for p in pathlib.Path("/sys/fs/cgroup").rglob(left[0].name)]
        for _ in range(2):  # the second time simulates a launch an hour later
            subprocess.run([str(harness.BIN / "composer"), "-n", "1", "-c", "true"], env=self.environment(), check=True)
            self.assertEqual([p for p in entries if p.exists()], [], "its process is dead: that is certain at once")
            if left[0].exists():
                for path in left + cgroup:
                    with contextlib.suppress(OSError):
                        os.utime(path, (time.time() - 3600,) * 2)
        self.assertEqual([p for p in left + cgroup if p.exists()], [])

    def test_sigkill_of_what_started_the_launcher(self):
        """As when srun's or ssh's own process is killed and its children get SIGKILL as a group."""
        parent = subprocess.Popen(["/bin/sh", "-c", '"$@" & echo $!; wait', "sh", *self.arguments("stubborn")],
                                  env=self.environment(),
                                  stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
        launcher = int(parent.stdout.readline())
        parent.stdout.close()
        pids = self.everything(launcher)
        at = time.monotonic()
        os.killpg(parent.pid, signal.SIGKILL)
        parent.wait()
        self.expect_all_gone(pids, at, "kill -9 of the process group")

    def test_the_terminal_is_lost(self):
        launcher, terminal = pty.fork()
        if launcher == 0:
            os.execve(self.arguments()[0], self.arguments(), self.environment())
        pids = self.everything(launcher)
        at = time.monotonic()
        os.close(terminal)
        self.addCleanup(lambda: alive(launcher) and os.kill(launcher, signal.SIGKILL))
        _, status = os.waitpid(launcher, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), 128 + signal.SIGHUP)
        self.expect_all_gone(pids, at, "terminal lost")

    def test_a_second_terminal_loss_is_not_a_kill(self):
        """A shell and the kernel both send SIGHUP; ranks that ignore it are given their time."""
        process, pids = self.begin("stubborn")
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGHUP)
        time.sleep(0.3)
        self.assertIsNone(process.poll())
        at = time.monotonic()
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)
        process.wait(PATIENCE_S)
        self.expect_all_gone(pids, at, "second SIGTERM")


if __name__ == "__main__":
    unittest.main()
