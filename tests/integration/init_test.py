"""Runs the launcher as process 1 of a container, here of a PID namespace: orphans are reaped, and signals and the exit
code get through."""
import os
import pathlib
import signal
import subprocess
import unittest

import harness

UNSHARE = ["unshare", "--pid", "--fork", "--mount-proc"]
PROBE = subprocess.run([*UNSHARE, "true"], capture_output=True, text=True)


@unittest.skipIf(PROBE.returncode, f"no PID namespaces here: {PROBE.stderr.strip()}")
class InitTest(harness.JobTest):
    def contained(self, *words):
        process = subprocess.Popen([*UNSHARE, str(harness.BIN / "composer"), *map(str, words)], cwd=self.folder,
                                   env=self.environment(),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def init_of(self, process):
        """Returns the pid, as seen here, of process 1 in the namespace."""
        def child():
            pids = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            return int(pids[0]) if pids else None
        return self.wait_for(child, "process 1")

    def test_exit_codes(self):
        for script, code in (("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)):
            process = self.contained("-n1", "-c", "sh", "-c", script)
            _, err = process.communicate(timeout=30)
            self.assertEqual(process.returncode, code, err)

    def test_it_is_process_1_and_works_elsewhere(self):
        process = self.contained("-n1", "-c", "sh", "-c", "cat /proc/1/comm; cat /proc/1/status")
        out, _ = process.communicate(timeout=30)
        self.assertTrue(out.startswith("composer-init\n"), out)
        self.assertRegex(out, r"(?m)^Threads:\s+1$")

    def test_orphans_of_others_are_reaped(self):
        """As left by `kubectl exec`, they are processes of the namespace that are not below the launcher."""
        ready = self.folder / "ready"
        process = self.contained("-n1", "-c", "sh", "-c", f"touch {ready}; exec sleep 100")
        self.wait_for(ready.exists, "the worker")
        init = self.init_of(process)
        inside = ["nsenter", "--pid", "--mount", f"--target={init}"]
        subprocess.run([*inside, "sh", "-c", "(sleep 0.1 &) ; (sleep 0.2 &) ; exit 0"], check=True, timeout=20)

        def children():
            return pathlib.Path(f"/proc/{init}/task/{init}/children").read_text().split()
        self.wait_for(lambda: len(children()) == 1, "all but the launcher reaped")
        os.kill(init, signal.SIGTERM)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 143)

    def test_sigterm_saves_and_the_code_is_75(self):
        job = self.write_job("contained", max_duration="5000ba", callbacks={"throttle": {"seconds": 0.02}})
        process = self.contained("-n2", job)
        self.wait_for_batch("contained", 3)
        os.kill(self.init_of(process), signal.SIGTERM)  # as kubelet does
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 75, err)
        self.assertGreaterEqual(self.summary("contained")["steps"], 3)

    def test_sigkill_of_process_1_ends_all(self):
        ready = self.folder / "ready"
        process = self.contained("-n2", "-c", "sh", "-c", f"setsid sleep 1000 & touch {ready}-$RANK; wait")
        self.wait_for(lambda: all((self.folder / f"ready-{r}").exists() for r in (0, 1)), "two workers")
        init = self.init_of(process)
        namespace = os.readlink(f"/proc/{init}/ns/pid")
        os.kill(init, signal.SIGKILL)
        process.communicate(timeout=30)

        def left():
            found = []
            for entry in pathlib.Path("/proc").iterdir():
                try:
                    if entry.name.isdigit() and os.readlink(entry / "ns/pid") == namespace:
                        found.append(entry.name)
                except OSError:
                    pass
            return found
        self.wait_for(lambda: not left(), "the end of all", 5)


if __name__ == "__main__":
    unittest.main()
