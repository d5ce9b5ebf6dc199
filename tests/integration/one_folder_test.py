"""Two jobs compete for one folder of checkpoints: one of them is told, and nothing of the other's is lost."""
import json
import unittest

import harness

SLOW = {"throttle": {"seconds": 0.03}}


class OneFolderTest(harness.JobTest):
    def ended(self, process, code, timeout=60):
        out, err = process.communicate(timeout=timeout)
        self.assertEqual(process.returncode, code, f"stdout:\n{out}\nstderr:\n{err}")
        return err

    def assert_all_valid(self, folder):
        listed, _ = self.run_composer("checkpoint", "list", folder, "--json", "--verify")
        self.assertTrue(listed and all(entry["valid"] for entry in json.loads(listed)), listed)
        return json.loads(listed)

    def test_another_run_is_refused(self):
        shared = str(self.folder / "shared")
        change = dict(save_folder=shared, max_duration="1000ba", save_interval="5ba", callbacks=SLOW)
        first = self.start("-n", 2, self.write_job("one", **change))
        self.wait_for_batch("one", 10)
        for name, advice in (("two", "save_folder may contain {run_name}"), ("three", "the same run_folder")):
            # three: the same job file in another run folder
            run = dict(change, run_name="one") if name == "three" else change
            second = self.start("-n", 2, self.write_job(name, **dict(run, run_folder=str(self.run_folder(name)))))
            err = self.ended(second, 64)
            for word in ("save_folder: ", shared, 'is in use by run "one"', advice):
                self.assertIn(word, err)
        err = self.ended(first, 0, timeout=120)
        self.assertNotIn("attempt", err)
        self.assertEqual(self.summary("one")["restarts"], 0)
        self.assertEqual(self.assert_all_valid(shared)[-1]["batch"], 1000)
        # The job has ended and released the folder, so nobody waits.
        self.run_composer("-n", 1, self.write_job("four", save_folder=shared, save_overwrite=True, autoresume=False),
                          timeout=30)

    def test_a_lock_removed_by_hand(self):
        job = self.write_job("run", max_duration="300ba", save_interval="5ba", callbacks=SLOW)
        first = self.start("-n", 2, job)
        self.wait_for_batch("run", 20)
        (self.run_folder("run") / ".lock").unlink()
        second = self.start("-n", 2, job)
        self.assertIn("a later launch of this run", self.ended(first, 64))
        self.ended(second, 0)
        undisturbed = self.write_job("undisturbed", max_duration="300ba", save_interval="300ba")
        self.run_composer("-n", 2, undisturbed)
        self.assert_all_valid(self.run_folder("run"))
        self.assert_same_state(self.run_folder("run") / "checkpoints", self.newest_checkpoint("undisturbed"))

    def test_a_copied_run_folder_is_another_run(self):
        import shutil
        shared = str(self.folder / "shared")
        change = dict(save_folder=shared, max_duration="400ba", save_interval="5ba", callbacks=SLOW)
        first = self.start("-n", 1, self.write_job("run", **change))
        self.wait_for_batch("run", 10)
        shutil.copytree(self.run_folder("run"), self.run_folder("copy"),
                        ignore=shutil.ignore_patterns(".lock", "*.tmp*"))
        second = self.start("-n", 1,
                            self.write_job("copied",
                                           **dict(change, run_name="run", run_folder=str(self.run_folder("copy")),
                                                  resume_changes=["job_file"])))
        self.assertIn("is in use by run", self.ended(second, 64))
        self.ended(first, 0, timeout=120)


if __name__ == "__main__":
    unittest.main()
