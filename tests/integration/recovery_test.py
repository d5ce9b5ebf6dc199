"""Jobs are killed, preempted and resumed: the final weights must equal those of a run that was never disturbed, bit for
bit."""
import os
import signal
import time
import unittest

import harness


class RecoveryTest(harness.JobTest):
    def write_job(self, name, **changes):
        # The number of repeated steps is exact only where a save has ended before the next step begins.
        return super().write_job(name, **{"save_async": False, **changes})

    def undisturbed(self):
        self.run_composer("-n", 2, self.write_job("calm"))
        return self.newest_checkpoint("calm")

    def check_recovery(self, name, calm):
        summary = self.summary(name)
        self.assertEqual(summary["restarts"], 1, summary)
        self.assertEqual(summary["steps"], 40)
        for generation in summary["generations"][1:]:
            self.assertLessEqual(generation["recomputed_steps"], 10, summary)
        self.check_records(name)
        self.assert_same_state(calm, self.newest_checkpoint(name))
        return summary

    def check_records(self, name, launches=1):
        """Checks that each step is in metrics.jsonl once, with its rates and the start of the run that wrote it."""
        steps = [m for m in self.metrics(name) if "loss/train/total" in m]
        self.assertEqual([m["time/batch"] for m in steps], list(range(1, 41)))
        starts = [(m["launch"], m["generation"]) for m in steps]
        self.assertEqual(starts, sorted(starts), "what a restart did again is cut off")
        self.assertEqual(starts[-1][0], launches)
        self.assertTrue(all(any(key.startswith("lr-") for key in m) for m in steps))
        self.assertTrue(all("throughput/samples_per_sec" in m for m in steps if m["time/batch"] > 39))
        summary = self.summary(name)
        self.assertEqual((summary["launch"], summary["all_launches"]["launches"]), (launches, launches))

    def test_kill_either_rank_at_three_steps(self):
        calm = self.undisturbed()
        for rank in (0, 1):
            for batch in (3, 17, 39):
                name = f"kill-{rank}-{batch}"
                job = self.write_job(name, callbacks={"fail_at": {"rank": rank, "batch": batch}})
                _, err = self.run_composer("-n", 2, job)
                self.assertIn(f"rank {rank}", err)
                self.assertIn("SIGKILL", err)
                summary = self.check_recovery(name, calm)
                self.assertIn("SIGKILL", summary["generations"][0]["cause"])
                self.assertEqual(summary["generations"][0]["end_step"], batch)

    def test_kill_during_a_checkpoint_write(self):
        calm = self.undisturbed()
        for rank in (0, 1):
            name = f"save-{rank}"
            job = self.write_job(name, callbacks={"fail_at": {"rank": rank, "batch": 20, "when": "save"}})
            self.run_composer("-n", 2, job)
            summary = self.check_recovery(name, calm)
            self.assertEqual(summary["generations"][1]["start_step"], 10)
            self.assertEqual(summary["generations"][1]["recomputed_steps"], 10)

    def test_kill_during_a_write_behind_the_training(self):
        calm = self.undisturbed()
        for rank in (0, 1):
            name = f"behind-{rank}"
            job = self.write_job(name, save_async=True,
                                 callbacks={"fail_at": {"rank": rank, "batch": 20, "when": "save"},
                                            "throttle": {"seconds": 0.02}})
            self.run_composer("-n", 2, job)
            summary = self.summary(name)
            self.assertEqual(summary["restarts"], 1, summary)
            self.assertGreaterEqual(summary["generations"][0]["end_step"], 20, "training went on")
            self.assertEqual(summary["generations"][1]["start_step"], 10)
            self.assert_same_state(calm, self.newest_checkpoint(name))

    def test_a_checkpoint_on_request(self):
        job = self.write_job("asked", save_async=True, save_interval="100000ba", max_duration="2000ba",
                             callbacks={"throttle": {"seconds": 0.02}})
        process = self.start("-n", 2, job)
        self.wait_for_batch("asked", 3)
        self.run_composer("save", self.run_folder("asked"))
        deadline = time.monotonic() + 20
        while not list((self.run_folder("asked") / "checkpoints").glob("*/manifest.json")):
            self.assertLess(time.monotonic(), deadline, "composer save made no checkpoint")
            time.sleep(0.05)
        self.assertIsNone(process.poll(), "the job goes on")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 75, err)
        self.run_composer("save", self.run_folder("asked"), code=69)

    def test_other_ends_of_a_worker(self):
        calm = self.undisturbed()
        for how, word in (("abort", "SIGABRT"), ("exit", "70"), ("throw", "asked to fail")):
            job = self.write_job(how, callbacks={"fail_at": {"rank": 1, "batch": 13, "how": how}})
            _, err = self.run_composer("-n", 2, job)
            self.assertIn(word, err)
            self.check_recovery(how, calm)

    def test_sigterm_saves_and_the_same_command_goes_on(self):
        calm = self.undisturbed()
        slow = {"throttle": {"seconds": 0.02}}
        job = self.write_job("drained", callbacks=slow)
        process = self.start("-n", 2, job)
        self.wait_for_batch("drained", 21)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 75, err)
        stopped = self.summary("drained")
        self.assertEqual(stopped["exit_code"], 75)
        self.assertGreaterEqual(stopped["steps"], 21)
        self.assertNotEqual(stopped["steps"] % 16, 0, "meant to stop inside an epoch")
        self.run_composer("-n", 2, job)
        summary = self.summary("drained")
        self.assertEqual(summary["generations"][-1]["start_step"], stopped["steps"])
        self.check_records("drained", launches=2)
        self.assert_same_state(calm, self.newest_checkpoint("drained"))

    def test_a_real_kill_from_outside(self):
        calm = self.undisturbed()
        process = self.start("-n", 2, self.write_job("murdered", callbacks={"throttle": {"seconds": 0.02}}))
        self.wait_for_batch("murdered", 12)
        os.kill(self.workers("murdered")[1], signal.SIGKILL)
        out, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 0, err)
        self.check_recovery("murdered", calm)

    def test_a_launch_that_is_killed_as_a_whole_counts(self):
        job = self.write_job("lost", callbacks={"throttle": {"seconds": 0.02}})
        process = self.start("-n", 2, job)
        self.wait_for_batch("lost", 25)
        process.kill()
        process.communicate(timeout=30)
        self.run_composer("-n", 2, job)
        self.check_records("lost", launches=2)
        [earlier] = self.summary("lost")["earlier_launches"]
        self.assertEqual((earlier["launch"], earlier["exit_reason"]), (1, "lost"))

    def test_records_of_another_life_of_the_run_are_kept(self):
        job = self.write_job("again", save_interval="0ba", autoresume=False, max_duration="3ba")
        for _ in range(2):
            self.run_composer("-n", 1, job)
        self.assertEqual([m["launch"] for m in self.metrics("again") if "loss/train/total" in m], [2] * 3)
        kept = (self.run_folder("again") / "metrics-1.jsonl").read_text()
        self.assertEqual(kept.count('"loss/train/total"'), 3)

    def test_the_budget_ends_and_says_so(self):
        job = self.write_job("doomed",
                             callbacks={"fail_at": {"rank": 0, "batch": 3, "how": "exit", "every_generation": True}})
        _, err = self.run_composer("-n", 2, "--max-restarts", 2, job, code=93)
        self.assertEqual(self.summary("doomed")["restarts"], 2)
        self.assertIn("max-restarts", err)

    def test_a_finished_run_is_done_when_started_again(self):
        job = self.write_job("twice")
        self.run_composer("-n", 2, job)
        first = self.newest_checkpoint("twice")
        self.run_composer("-n", 2, job)
        self.assertEqual(self.newest_checkpoint("twice"), first)
        self.assertEqual(self.summary("twice")["steps"], 40)


if __name__ == "__main__":
    unittest.main()
