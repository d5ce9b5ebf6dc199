"""The fault matrix on the real binaries: each fault is reported with its right root cause, every time, first in the
summary and on the terminal, and the run ends in the right state. It is one table; MATRIX_ROUNDS=N repeats it."""
import concurrent.futures
import dataclasses
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

import harness

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "netns"))
import hosts  # noqa: E402

ROUNDS = int(os.environ.get("MATRIX_ROUNDS", "1"))
SLOW = {"throttle": {"seconds": 0.02}}
LONG = {"max_duration": "150ba"}
HANG_S = 45  # the detector's limit is 20 s


@dataclasses.dataclass
class Fault:
    name: str
    cause: str                  # regular expression for the first generation's cause
    inject: object = None       # called with the test and the run's name once the run trains
    job: dict = dataclasses.field(default_factory=dict)
    flags: tuple = ()
    code: int = 0
    restarts: int = 1
    also: str = ""              # must also be on the terminal
    timeout: float = 60


def signal_rank(rank, number):
    def inject(test, name):
        os.kill(test.workers(name)[rank], number)
    return inject


def fail_at(rank, how, batch=13):
    return {"callbacks": {**SLOW, "fail_at": {"rank": rank, "batch": batch, "how": how}}}


FAULTS = [
    Fault("exit code", r"^rank 1 exited with 70", job=fail_at(1, "exit")),
    Fault("exception", r"^rank 0 exited with 70: .*asked to fail", job=fail_at(0, "throw")),
    Fault("abort", r"^rank 1 was killed by SIGABRT", job=fail_at(1, "abort")),
    Fault("SIGSEGV", r"^rank 0 was killed by SIGSEGV", signal_rank(0, signal.SIGSEGV)),
    Fault("SIGBUS", r"^rank 1 was killed by SIGBUS", signal_rank(1, signal.SIGBUS)),
    Fault("kill -9 by someone", r"^rank 1 was killed by SIGKILL \(9\): .*(someone else sent it|not by the launcher)",
          signal_rank(1, signal.SIGKILL)),
    Fault("frozen rank (SIGSTOP)", r"^rank 1 hung: no heartbeat for 2\ds; its process is stopped",
          signal_rank(1, signal.SIGSTOP), timeout=HANG_S + 30),
    Fault("hung training thread, its agent's heartbeats go on",
          r"^rank 1 hung: no step for 2\d(\.\d+)?s \(limit 20s\) at step 1\d(; its main thread waits in the kernel.s \w+)?",
          job=fail_at(1, "hang"), timeout=HANG_S + 30),
    Fault("bad config", r"^rank \d exited with 64: .*model.sizes", job={"model": {"name": "mlp", "sizes": [31, 10]}},
          code=64, restarts=0),
    Fault("no restarts left", r"^rank 0 was killed by SIGSEGV", signal_rank(0, signal.SIGSEGV),
          flags=("--max-restarts", "0"), code=139, restarts=0),
    Fault("the same failure until the budget is spent", r"^rank 1 exited with 70", flags=("--max-restarts", "2"),
          code=93, restarts=2,
          job={"callbacks": {"fail_at": {"rank": 1, "batch": 3, "how": "exit", "every_generation": True}}},
          also="giving up"),
]


class FaultMatrixTest(harness.JobTest):
    def check(self, fault, name, process, err):
        summary = self.summary(name)
        self.assertEqual(process.returncode, fault.code, err)
        self.assertEqual(summary["restarts"], fault.restarts, err)
        first = summary["generations"][0]
        self.assertRegex(first["cause"], fault.cause, err)
        told = [line for line in err.splitlines() if line.startswith("composer: ")]
        named = re.search(r"rank \d", first["cause"])[0]
        self.assertTrue(told[0].startswith(f"composer: {named} "), f"the cause comes first, and it is {named}:\n{err}")
        if fault.also:
            self.assertIn(fault.also, err)
        roles = [e["role"] for e in first["exits"]]
        self.assertEqual(roles.count("first cause"), 1, first)
        self.assertTrue(all(r == "first cause" or r.startswith("collateral") for r in roles), first)
        summary_lines = err.split("composer: ")
        self.assertLess(max(len(part.splitlines()) for part in summary_lines), 20, "one screen")

    def run_fault(self, fault, round_number):
        name = re.sub(r"\W+", "-", fault.name) + f"-{round_number}"
        job = self.write_job(name, **{"callbacks": SLOW, **(LONG if fault.inject else {}), **fault.job})
        began = time.monotonic()
        process = self.start("-n", 2, *fault.flags, job)
        if fault.inject:
            self.wait_for_batch(name, 12, 40)
            fault.inject(self, name)
        _, err = process.communicate(timeout=fault.timeout)
        self.check(fault, name, process, err)
        print(
            f"  {fault.name}: {self.summary(name)['generations'][0]['cause'][:110]} ({time.monotonic() - began:.1f} s)",
            flush=True)

    def test_matrix(self):
        """The two whose ranks only wait for the detector run beside the others."""
        for round_number in range(ROUNDS):
            with concurrent.futures.ThreadPoolExecutor(2) as beside:
                hung = {f.name: beside.submit(self.run_fault, f, round_number) for f in FAULTS if f.timeout > HANG_S}
                for fault in FAULTS:
                    with self.subTest(fault.name, round=round_number):
                        hung[fault.name].result() if fault.name in hung else self.run_fault(fault, round_number)


class UserErrorTest(harness.JobTest):
    """A mistake that only the workers can see is found by every rank, and reported once."""
    WHAT = "model.sizes: "

    def check(self, *flags, shown=1):
        for round_number in range(3 * ROUNDS):
            name = f"wrong-{len(flags)}-{round_number}"
            job = self.write_job(name, model={"name": "mlp", "sizes": [31, 10]})
            _, err = self.run_composer(*flags, job, code=64)
            self.assertIn(err.count(self.WHAT), range(1, shown + 1), err)
            self.assertRegex(err, r"composer: rank \d on .* exited with 64")
            self.assertIn("not retried", err)
            self.assertLess(len(err.splitlines()), 10, err)
            self.assertIn(self.WHAT, self.summary(name)["generations"][0]["cause"])
        print("  a user's error:\n    " + err.replace("\n", "\n    "))

    def test_one_rank(self):
        self.check("-n", 1)

    def test_two_ranks(self):
        self.check("-n", 2)

    def test_all_ranks_shown(self):
        """In this case each rank may report it in its own words; the launcher adds none."""
        self.check("-n", 3, "--tee", "3", shown=3)


class MemoryCgroup:
    """A memory cgroup of our own with a limit, v1 or v2, or None where the machine does not allow it."""

    @staticmethod
    def make(limit):
        for root, name in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = pathlib.Path(root) / f"composer-test-{os.getpid()}"
            try:
                folder.mkdir()
            except OSError:
                continue
            try:
                (folder / name).write_text(str(limit))
                swap = folder / ("memory.memsw.limit_in_bytes" if "limit" in name else "memory.swap.max")
                if swap.exists():
                    swap.write_text(str(limit) if "limit" in name else "0")
                return folder
            except OSError:
                folder.rmdir()
        return None


class OutOfMemoryTest(harness.JobTest):
    PROGRAM = """
import os, sys, time
if os.environ["RANK"] == "1" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    if "helper" in sys.argv:
        pid = os.fork()
        if pid:
            _, status = os.waitpid(pid, 0)
            sys.exit(5)
    blocks = []
    while True:
        blocks.append(bytearray(b"x" * 4_000_000))
time.sleep(0.5)
"""

    def run_in_cgroup(self, *words):
        group = MemoryCgroup.make(300 << 20)
        if group is None:
            self.skipTest("no memory cgroup can be made here (needs root and a writable /sys/fs/cgroup)")

        def remove():
            for _ in range(100):
                try:
                    return group.rmdir()
                except OSError:
                    time.sleep(0.05)
        self.addCleanup(remove)
        process = subprocess.Popen([harness.BIN / "composer", "-n", "2", "--max-restarts", "1", "-c", sys.executable,
                                    "-c", self.PROGRAM, *words],
                                   cwd=self.folder, env=self.environment(), stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL,
                                   preexec_fn=lambda: (group / "cgroup.procs").write_text(str(os.getpid())))
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        return err

    def test_the_kernel_kills_a_rank(self):
        for _ in range(ROUNDS):
            err = self.run_in_cgroup()
            self.assertRegex(err,
                             r"composer: rank 1 on .* was killed by SIGKILL \(9\): out of memory: the kernel killed it")
            print("  OOM-kill: " + err.splitlines()[0])

    def test_the_kernel_kills_a_helper_of_a_rank(self):
        err = self.run_in_cgroup("helper")
        self.assertRegex(err, r"composer: rank 1 on .* exited with 5: out of memory: the kernel had killed ")
        print("  OOM-kill of a helper: " + err.splitlines()[0])


class OneNodeDiffersTest(harness.JobTest):
    def both(self, first, second, port):
        """Runs two launchers on this machine as two nodes. Returns their (code, stderr)."""
        words = ["--nnodes", 2, "-n", 1, "--master_addr", "127.0.0.1", "--master_port", port, "--join-timeout", 6]
        nodes = [self.start("--node_rank", rank, *words, *extra) for rank, extra in enumerate((first, second))]
        outcomes = [node.communicate(timeout=60) for node in nodes]
        return [(node.returncode, err) for node, (_, err) in zip(nodes, outcomes)]

    def test_bad_config_on_one_node(self):
        job = self.write_job("differs")
        (code_0, err_0), (code_1, err_1) = self.both([job], [job, "max_duration=9ba"], harness.free_port())
        refused = err_0 + err_1
        self.assertIn("config_hash", refused)
        self.assertEqual(sorted([code_0, code_1]), [64, 69], refused)
        print("  bad config on one node: " + next(line for line in refused.splitlines() if "config_hash" in line)[:160])


    def test_wrong_token(self):
        for rank in (0, 1):
            (self.folder / f"token-{rank}").write_text(f"{rank}-secret-of-32-bytes-or-more-{rank}" * 2)
            (self.folder / f"token-{rank}").chmod(0o600)
        job = self.write_job("token")
        (code_0, err_0), (code_1, err_1) = self.both(*[["--token-file", self.folder / f"token-{rank}", job]
                                                       for rank in (0, 1)], harness.free_port())
        self.assertIn("token", err_1, err_0 + err_1)
        self.assertIn(code_1, (64, 69), err_1)
        self.assertEqual(code_0, 69, err_0)
        print("  wrong token: " + next(line for line in err_1.splitlines() if "token" in line)[:160])


@unittest.skipIf(hosts.why_not(), hosts.why_not())
class NetCutTest(harness.JobTest):
    def test_a_cut_cable_is_named(self):
        job = self.write_job("cut", callbacks=SLOW, **LONG)
        with hosts.Network(2) as nodes:
            runs = [host.run([harness.BIN / "composer", "-n", 1, "--nnodes", "1:2", "--node_rank", rank,
                              "--master_addr", nodes[0].address,
                              "--master_port", 7501, job], cwd=self.folder, env=self.environment())
                    for rank, host in enumerate(nodes)]
            self.wait_for_batch("cut", 12, 60)
            at = time.monotonic()
            nodes[1].cut()
            told = self.wait_for(lambda: runs[0].said("was lost", at), "node 0 is told", 20)
            print(f"  net cut: told after {told - at:.1f} s")
            self.assertEqual(runs[0].exit_code(60), 0, runs[0].text())
        self.assertRegex(self.summary("cut")["generations"][0]["cause"], r"^node 1 .* was lost")


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)
    unittest.main()
