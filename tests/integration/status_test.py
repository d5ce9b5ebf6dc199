"""`composer status` of a job on two nodes shows both, whichever launcher is asked; each launcher on this machine is a
node."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import termios
import unittest

import harness


class StatusTest(harness.JobTest):
    def status(self, launcher, *flags, code=0):
        out, _ = self.run_composer("status", *flags, launcher.pid, code=code)
        return out

    def start_nodes(self, *words):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        return [self.start("-n", 1 + rank, "--nnodes", 2, "--node_rank", rank, "--master_addr", "127.0.0.1",
                           "--master_port", port,
                           "--max-restarts", 2, "--node-group", f"rack-{rank}", *words) for rank in (0, 1)]

    def test_all_nodes_and_ranks(self):
        job = self.write_job("two", callbacks={"throttle": {"seconds": 0.2}}, max_duration="5000ba")
        nodes = self.start_nodes(job)
        self.wait_for_batch("two", 3, 60)
        for asked in nodes:
            status = json.loads(self.status(asked, "--json"))
            self.assertEqual([m["node_rank"] for m in status["members"]], [0, 1])
            self.assertEqual([m["state"] for m in status["members"]], ["running", "running"])
            self.assertEqual([m["group"] for m in status["members"]], ["rack-0", "rack-1"])
            ranks = [rank for member in status["members"] for rank in member["ranks"]]
            self.assertEqual([rank["rank"] for rank in ranks], [0, 1, 2])
            self.assertEqual({rank["rank"]: rank["pid"] for rank in ranks}, self.workers("two"))
            for rank in ranks:
                self.assertEqual(rank["phase"], "training")
                self.assertGreaterEqual(rank["step"], 3)
            self.assertLess(max(m["report_age_seconds"] for m in status["members"]), 5)
        text = self.status(nodes[1])
        self.assertRegex(text, r"\n +0 \S+ +127.0.0.1 +0 running +\d+ +0\n +1 \S+ +127.0.0.1 +1-2 running +\d+ +0\n")
        self.assertRegex(text, r"\n +2 +1 +1 +\d+ training ")

    def test_the_last_cause_and_the_restarts(self):
        job = self.write_job("fails", callbacks={"throttle": {"seconds": 0.2}}, max_duration="5000ba")
        nodes = self.start_nodes(job)
        self.wait_for_batch("fails", 3, 60)
        old = self.workers("fails")
        harness.os.kill(old[2], signal.SIGKILL)
        self.wait_for(lambda: len(self.workers("fails")) == 3
                      and not set(old.values()) & set(self.workers("fails").values()), "they start again", 60)
        status = json.loads(self.status(nodes[0], "--json"))
        self.assertEqual([m["restarts"] for m in status["members"]], [1, 1])
        self.assertIn("rank 2 was killed by SIGKILL", status["last_cause"])

    def test_top_shows_the_ranks_and_its_keys_act_on_the_job(self):
        job = self.write_job("topped", callbacks={"throttle": {"seconds": 0.05}}, max_duration="5000ba", save_interval="1000ba")
        launcher = self.start("-n", 2, job)
        self.wait_for_batch("topped", 3, 60)
        out, _ = self.run_composer("top", launcher.pid)  # without a terminal: one frame
        self.assertRegex(out, r"(?m)^.    1 +\d+ training +\d+ ")
        screen, shown = self.open_top(launcher.pid)
        self.read_until(screen, shown, rb"\x1b\[\?1049h(?s:.)*rank +pid +phase")
        os.write(screen, b"s")
        self.read_until(screen, shown, rb"checkpoint")
        self.wait_for(lambda: list((self.run_folder("topped") / "checkpoints").glob("ep*-ba*")), "a checkpoint")
        os.write(screen, b"p")
        self.read_until(screen, shown, rb"profile the next batches")
        traces = self.run_folder("topped") / "traces"
        self.wait_for(lambda: len(list(traces.glob("*.verdict.txt"))) == 2, "a verdict of each rank")
        batches = {path.name.split("-rank")[0] for path in traces.glob("ep*.verdict.txt")}
        self.assertEqual(len(batches), 1, "all ranks record the same batches")
        self.assertRegex(next(traces.glob("*rank0.verdict.txt")).read_text(), r"4 batches")
        os.write(screen, b"t")
        self.read_until(screen, shown, rb"write the stacks of their threads")
        stacks = self.run_folder("topped") / "logs"
        self.wait_for(lambda: len(list(stacks.glob("stacks-rank-0000?.txt"))) == 2, "the stacks of each rank")
        text = (stacks / "stacks-rank-00001.txt").read_text()
        self.assertRegex(text, rf"^rank 1 \(pid {self.workers('topped')[1]}\) at .*Z?: \d+ threads\n")
        self.assertRegex(text, r"\nthread \d+ composer_worker, the main thread, [RSD].*:\n  #0 .*\n(  #.*\n)*.*composer::")
        os.write(screen, b"d")
        self.assertEqual(launcher.wait(30), 75)
        self.read_until(screen, shown, rb"\x1b\[\?1049l")  # the job has ended: the screen from before is back
        os.close(screen)

    def open_top(self, pid):
        """Returns a terminal of 20 lines in which `composer top` runs, and what it has shown."""
        screen, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 100, 0, 0))
        top = subprocess.Popen([harness.BIN / "composer", "top", str(pid)], stdin=inner, stdout=inner, stderr=inner,
                               env=self.environment(), start_new_session=True)
        os.close(inner)
        self.addCleanup(lambda: (top.kill(), top.wait()))
        return screen, bytearray()

    def read_until(self, screen, shown, pattern):
        """Reads until the pattern is there, which is then used up."""
        def found():
            if select.select([screen], [], [], 0.1)[0]:
                try:
                    shown.extend(os.read(screen, 65536))
                except OSError:  # the program has closed the terminal
                    pass
            match = re.search(pattern, bytes(shown))
            if match:
                del shown[:match.end()]
            return match
        self.wait_for(found, f"{pattern} in {bytes(shown)[-400:]}")


if __name__ == "__main__":
    unittest.main()
