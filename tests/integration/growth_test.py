"""A job of 1 to 3 nodes: launchers come later and leave earlier, and the world follows. Each launcher on this machine
is one node. The batches are those of an uninterrupted run, whichever rank computes them."""
import os
import select
import signal
import time
import unittest

import harness


class GrowthTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        self.port = harness.free_port()

    def node(self, rank, *words, nodes="1:3"):
        return self.start("-n", 1, "--nnodes", nodes, "--node_rank", rank, "--master_addr", "127.0.0.1",
                          "--master_port", self.port, "--last-call", 0, *words)

    def expect_done(self, process, code=0, timeout=120):
        _, err = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, code, err)
        return err

    def newest_batch(self, name):
        return max((m.get("time/batch", 0) for m in self.complete_metrics(name)), default=0)

    def train_on(self, name, ranks, batches=4):
        """Waits until a world of that many ranks has done some batches."""
        self.wait_for(lambda: len(self.workers(name)) == ranks, f"{ranks} workers", 60)
        self.wait_for_batch(name, self.newest_batch(name) + batches, 60)

    def losses(self, name):
        return {m["time/batch"]: m["loss/train/total"] for m in self.metrics(name) if "loss/train/total" in m}


class JobGrowthTest(GrowthTest):
    def test_grow_shrink_and_grow_again(self):
        job = self.write_job("grows", callbacks={"throttle": {"seconds": 0.2}}, max_duration="110ba",
                             save_interval="1000ba")
        first = self.node(0, job)
        self.train_on("grows", 1)
        second, third = self.node(1, job), self.node(2, job)
        self.train_on("grows", 3)
        third.send_signal(signal.SIGTERM)
        err = self.expect_done(third, 75)
        self.assertIn("the workers checkpoint", err)
        self.train_on("grows", 2)
        again = self.node(2, job)
        self.train_on("grows", 3)
        errors = [self.expect_done(process) for process in (first, second, again)]
        self.assertIn("the world grows from 1 to 3 of at most 3 nodes", errors[0])
        self.assertIn("the world grows from 2 to 3 of at most 3 nodes", errors[0])

        summary = self.summary("grows")
        self.assertEqual((summary["world_size"], summary["steps"], summary["restarts"]), (3, 110, 0), summary)
        turns = summary["generations"]
        self.assertEqual([t["generation"] for t in turns], [1, 2, 3, 4])
        self.assertEqual([t["start_step"] for t in turns[1:]], [t["end_step"] for t in turns[:-1]],
                         "no step is lost, none repeated")
        batches = [m["time/batch"] for m in self.metrics("grows") if "loss/train/total" in m]
        self.assertEqual(batches, list(range(1, 111)), "each batch once, in order")

        alone = self.write_job("alone", max_duration="110ba", save_interval="1000ba")
        self.run_composer("-n", 1, alone, timeout=120)
        expected, got = self.losses("alone"), self.losses("grows")
        for batch in range(1, 111):
            self.assertAlmostEqual(got[batch], expected[batch], delta=2e-3 * max(1.0, abs(expected[batch])),
                                   msg=f"batch {batch}")
        for generation in (1, 2, 3, 4):
            self.assertTrue((self.run_folder("grows") / f"logs/gen-{generation:03}/rank-00000.log").exists(),
                            generation)

    def test_now_goes_back_to_the_last_checkpoint(self):
        job = self.write_job("now", callbacks={"throttle": {"seconds": 0.2}}, max_duration="60ba", save_interval="10ba")
        first = self.node(0, "--grow", "now", job, nodes="1:2")
        self.train_on("now", 1, 12)
        second = self.node(1, "--grow", "now", job, nodes="1:2")
        err = self.expect_done(first)
        self.expect_done(second)
        self.assertIn("the world grows from 1 to 2 of at most 2 nodes: the workers start again", err)
        summary = self.summary("now")
        self.assertEqual((summary["world_size"], summary["steps"], summary["restarts"]), (2, 60, 0), summary)
        one, two = summary["generations"]
        self.assertEqual(two["start_step"] % 10, 0, "a checkpoint of the interval: none was made for the growth")
        self.assertLessEqual(two["start_step"], one["end_step"])
        self.assertLess(one["end_step"] - two["start_step"], 40)


class ProgramGrowthTest(GrowthTest):
    def program(self):
        return (
            "-c", "sh", "-c",
            f"echo $WORLD_SIZE-$RANK >> {self.folder}/started; while test ! -e {self.folder}/go; do sleep 0.05; done")

    def started(self):
        path = self.folder / "started"
        return sorted(path.read_text().split()) if path.exists() else []

    def test_now(self):
        first = self.node(0, "--grow", "now", *self.program())
        self.wait_for(lambda: self.started() == ["1-0"], "a world of one", 30)
        second = self.node(1, "--grow", "now", *self.program())
        self.wait_for(lambda: self.started() == ["1-0", "2-0", "2-1"], "a world of two", 60)
        (self.folder / "go").touch()
        for process in (first, second):
            self.expect_done(process)

    def test_by_default_the_newcomer_waits(self):
        first = self.node(0, *self.program())
        self.wait_for(lambda: self.started() == ["1-0"], "a world of one", 30)
        second = self.node(1, *self.program())
        time.sleep(7)  # longer than the window in which newcomers are collected
        self.assertEqual(self.started(), ["1-0"])
        (self.folder / "go").touch()
        self.expect_done(first)
        second.send_signal(signal.SIGTERM)
        self.assertIn("waiting as a spare", second.communicate(timeout=30)[1])

    def test_a_newcomer_counts_the_restarts_of_the_job(self):
        """One crash is before the newcomer's time; the third is one too many, for both."""
        path, go = self.folder / "turns", self.folder / "go"
        program = ("--max-restarts", 2, "-c", "sh", "-c",
                   f"echo $NODE_RANK-$TORCHELASTIC_RESTART_COUNT >> {path}; while test ! -e {go}-$TORCHELASTIC_RESTART_COUNT; do sleep 0.05; done; "
                   "test $RANK = 0 && exit 3; sleep 60")
        turns = lambda: sorted(path.read_text().split()) if path.exists() else []
        first = self.node(0, *program, nodes="1:2")
        self.wait_for(lambda: turns() == ["0-0"], "the first start", 30)
        second = self.node(1, *program, nodes="1:2")
        self.wait_for(lambda: self.waits(second), "it waits", 30)
        for count, expected in enumerate((["0-0", "0-1", "1-1"], ["0-0", "0-1", "0-2", "1-1", "1-2"])):
            (self.folder / f"go-{count}").touch()
            self.wait_for(lambda: turns() == expected, f"{expected}", 60)
        (self.folder / "go-2").touch()
        for process in (first, second):
            self.assertIn("giving up", self.expect_done(process, 93))

    def waits(self, process):
        """Returns whether it has reported that it is a spare; its later output is still to be read."""
        if not select.select([process.stderr], [], [], 0)[0]:
            return False
        return b"waiting as a spare" in os.read(process.stderr.fileno(), 65536)

    def test_a_program_has_no_checkpoint(self):
        _, err = self.run_composer("--nnodes", "1:2", "--master_addr", "127.0.0.1", "--master_port", self.port,
                                   "--grow", "checkpoint", *self.program(), code=64)
        self.assertIn("--grow checkpoint is for YAML jobs", err)


if __name__ == "__main__":
    unittest.main()
