"""Every mistake of a user: one clear message, the right exit code, nothing lost."""
import os
import pathlib
import socket
import unittest

import harness


class ErrorsTest(harness.JobTest):
    def refused(self, *args, code=64, expect=()):
        _, err = self.run_composer(*args, code=code)
        for word in expect:
            self.assertIn(word, err)
        self.assertNotIn("Traceback", err)
        return err

    def test_unknown_key_names_place_and_nearest(self):
        job = self.write_job("typo", max_duraton="3ba")
        err = self.refused("-n", 2, job, expect=["max_duraton", "max_duration", "typo.yaml:"])
        # By rank 0, whose output passes through, and twice by the launcher when another rank was first: the cause and the last line.
        self.assertLessEqual(err.count("did you mean"), 3, err)
        self.assertNotIn("the last lines of its stderr", err)

    def test_unknown_names_in_tables(self):
        self.refused(self.write_job("model", model={"name": "mpl", "sizes": [32, 10]}), expect=["mpl", "mlp"])
        self.refused(self.write_job("optimizer", optimizers={"name": "decoupled_adam"}), expect=["decoupled_adam", "decoupled_adamw"])
        self.refused(self.write_job("callback", callbacks={"lr_moniter": None}), expect=["lr_moniter", "lr_monitor"])

    def test_a_gpu_is_refused_instead_of_ignored(self):
        self.refused(self.write_job("gpu", device="gpu"), expect=["device", "gpu", "cpu"])

    def test_renamed_key_names_the_new_one(self):
        self.refused(self.write_job("old", grad_accum=2), expect=["grad_accum", "device_train_microbatch_size"])

    def test_all_errors_at_once(self):
        self.refused(self.write_job("many", max_duraton="3ba", sed=3, max_duration="soon"), expect=["max_duraton", "sed", "soon"])

    def test_flags(self):
        self.refused("--nprc", 2, self.write_job("flag"), expect=["nprc", "nproc"])
        self.refused("-n", 0, self.write_job("zero"), expect=["nproc", "0"])
        self.refused("-n", 2, self.folder / "missing.yaml", expect=["missing.yaml"])

    def test_too_many_ranks_for_the_batch(self):
        self.refused("-n", 3, self.write_job("narrow", global_train_batch_size=2), expect=["global_train_batch_size", "3"])

    def test_unreadable_data(self):
        data = {"name": "fashion_mnist", "path": str(self.folder / "nowhere")}
        self.refused("-n", 2, self.write_job("data", train_dataloader=data, model={"name": "resnet_small"}), expect=["nowhere"])

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused("-n", 1, "--master_port", port, self.write_job("port"), expect=[str(port)])

    def test_full_disk_while_saving_loses_nothing(self):
        # A file-size limit stands in for the full disk: writing fails with EFBIG, as ENOSPC would.
        import resource
        job = self.write_job("full", max_duration="10ba")
        self.run_composer("-n", 2, job)
        before = self.newest_checkpoint("full")
        big = self.folder / "big.yaml"
        big.write_text(job.read_text())

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        process = self.start("-n", 2, "--max-restarts", 0, big, "max_duration=20ba", preexec_fn=limit)
        _, err = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, "(?i)too large|no space|full")
        self.run_composer("-n", 2, job, "max_duration=20ba")
        self.assertEqual(self.summary("full")["generations"][-1]["start_step"], 10)
        self.assertTrue(pathlib.Path(before).exists())

    def test_another_batch_size_for_the_same_run(self):
        job = self.write_job("frozen", max_duration="10ba")
        self.run_composer(job)
        self.refused(job, "global_train_batch_size=8", "max_duration=20ba", expect=["global_train_batch_size", "16", "8"])

    def test_validate(self):
        out, _ = self.run_composer("validate", self.write_job("fine"))
        self.refused("validate", self.write_job("wrong", seed="x"), expect=["seed"])


if __name__ == "__main__":
    unittest.main()
