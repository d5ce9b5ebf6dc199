"""Every mistake of a user gives one clear message and the right exit code, and loses nothing."""
import json
import os
import pathlib
import socket
import subprocess
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
        # It is said by rank 0, whose output is passed through, and, when another rank was first, twice by the launcher:
        # as the cause and as the last line.
        self.assertLessEqual(err.count("did you mean"), 3, err)
        self.assertNotIn("the last lines of its stderr", err)

    def test_unknown_names_in_tables(self):
        self.refused(self.write_job("model", model={"name": "mpl", "sizes": [32, 10]}), expect=["mpl", "mlp"])
        self.refused(self.write_job("optimizer", optimizers={"name": "decoupled_adam"}),
                     expect=["decoupled_adam", "decoupled_adamw"])
        self.refused(self.write_job("callback", callbacks={"lr_moniter": None}), expect=["lr_moniter", "lr_monitor"])

    def test_a_gpu_is_refused_instead_of_ignored(self):
        self.refused(self.write_job("gpu", device="gpu"), expect=["device", "gpu", "cpu"])

    def test_renamed_key_names_the_new_one(self):
        self.refused(self.write_job("old", grad_accum=2), expect=["grad_accum", "device_train_microbatch_size"])

    def test_all_errors_at_once(self):
        self.refused(self.write_job("many", max_duraton="3ba", sed=3, max_duration="soon"),
                     expect=["max_duraton", "sed", "soon"])

    def test_flags(self):
        self.refused("--nprc", 2, self.write_job("flag"), expect=["nprc", "nproc"])
        self.refused("-n", 0, self.write_job("zero"), expect=["nproc", "0"])
        self.refused("-n", 2, self.folder / "missing.yaml", expect=["missing.yaml"])

    def test_too_many_ranks_for_the_batch(self):
        self.refused("-n", 3, self.write_job("narrow", global_train_batch_size=2),
                     expect=["global_train_batch_size", "3"])

    def test_unreadable_data(self):
        data = {"name": "fashion_mnist", "path": str(self.folder / "nowhere")}
        self.refused("-n", 2, self.write_job("data", train_dataloader=data, model={"name": "resnet_small"}),
                     expect=["nowhere"])

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused("-n", 1, "--master_port", port, self.write_job("port"), expect=[str(port)])

    def test_a_mistake_is_found_before_anything_is_started_or_written(self):
        job = self.write_job("finished", max_duration="5ba")
        self.run_composer("-n", 2, job)
        before = {path: path.read_bytes() for path in self.run_folder("finished").rglob("*") if path.is_file()}
        err = self.refused("-n", 2, job, "+sed=3", expect=["sed", "seed", "command line `+sed=3`"])
        self.assertNotIn("rank", err)
        self.refused("-n", 2, job, "model.sizes=[31,10]", "resume_changes=allow", expect=["model"])  # by the workers
        after = {path: path.read_bytes() for path in self.run_folder("finished").rglob("*") if path.is_file()
                 and "gen-" not in str(path)}
        for path, content in before.items():
            if path.name in ("summary.json", "config.yaml", "metrics.jsonl"):
                self.assertEqual(after[path], content, path)
        self.assertEqual(self.run_composer("-n", 1, self.write_job("empty", **{key: None for key in harness.TINY_JOB}),
                                           code=64)[1].count("rank 0"), 0)

    def test_text_that_is_not_utf8(self):
        job = self.write_job("utf8")
        for words in ([job, b"run_name=m\xff"], [b"--rdzv_id=\xff", job]):
            process = subprocess.run([str(harness.BIN / "composer"), "-n", "1", *words], cwd=self.folder,
                                     env=self.environment(), capture_output=True, timeout=20)
            self.assertEqual(process.returncode, 64, process.stderr)
            self.assertLess(len(process.stderr), 2000)
            self.assertIn(b"UTF-8", process.stderr)

    def test_a_model_that_does_not_take_the_data(self):
        err = self.refused("-n", 2, self.write_job("shapes", model={"name": "mlp", "sizes": [31, 10]}),
                           expect=["model.sizes", "31", "32 features", "shapes.yaml:"])
        self.assertIn("not retried", err)

    def test_resuming_says_from_where_and_what_changed(self):
        job = self.write_job("resumed", max_duration="10ba")
        self.run_composer(job)
        _, err = self.run_composer(job, "max_duration=20ba", "optimizers.lr=0.5")
        self.assertRegex(err,
                         r"resuming from ep\d+-ba10 of \d{4}-\d\d-\d\d .*; changed since: max_duration 10ba -> 20ba, optimizers.lr 0.001 -> 0.5")
        log = (self.run_folder("resumed") / "logs/gen-001/rank-00000.log").read_text()
        self.assertIn("resuming from", log)
        self.refused(job, "max_duration=30ba", "seed=8", expect=["seed 7 -> 8", "resume_changes: [seed]"])
        self.run_composer(job, "max_duration=30ba", "seed=8", "resume_changes=seed")
        self.refused(job, "max_duration=40ba", "seed=8", "train_dataloader.separation=2",
                     expect=["train_dataloader.separation"])
        self.run_composer(job, "max_duration=40ba", "seed=8", "global_train_batch_size=8",
                          "resume_changes=[global_train_batch_size]")

    def test_nothing_to_do(self):
        job = self.write_job("complete", max_duration="10ba",
                             eval_dataloader=dict(harness.TINY_JOB["train_dataloader"], size=32))
        self.run_composer("-n", 2, job)
        metrics = (self.run_folder("complete") / "metrics.jsonl").read_bytes()
        for settings in ([], ["max_duration=5ba"]):
            _, err = self.run_composer("-n", 2, job, *settings)
            self.assertIn("nothing to do: already at 10ba", err)
            self.assertNotIn("samples/s", err)
        self.assertEqual((self.run_folder("complete") / "metrics.jsonl").read_bytes().count(b"metrics/eval"),
                         metrics.count(b"metrics/eval"))

    def test_another_job_file_of_the_same_run(self):
        for project in ("a", "b"):
            (self.folder / project).mkdir()
            (self.folder / project / "train.yaml").write_text(json.dumps(dict(harness.TINY_JOB, max_duration="5ba")))
        self.run_composer(self.folder / "a/train.yaml")
        self.refused(self.folder / "b/train.yaml", expect=["a/train.yaml", "run_name"])
        self.run_composer(self.folder / "b/train.yaml", "run_name=b")
        self.run_composer(self.folder / "a/train.yaml", "max_duration=8ba")

    def test_secrets_and_defaults(self):
        job = self.write_job("secret", max_duration="3ba")
        self.run_composer(job, "+variables={k: '${oc.env:MYSECRET}'}", "save_folder=${variables.k}x",
                          "auto_log_hparams=true",
                          env=dict(self.environment(), MYSECRET=str(self.folder / "hunter2hunter2")))
        found = [path for path in self.run_folder("secret").rglob("*") if path.is_file()
                 and b"hunter2hunter2" in path.read_bytes() and path.name != "summary.json"]
        self.assertEqual(found, [])
        config = self.run_folder("secret") / "config.yaml"
        self.assertIn("${oc.env:MYSECRET}", config.read_text())
        self.assertIn("precision: fp32", config.read_text())
        self.assertEqual(config.stat().st_mode & 0o777, 0o600)
        self.assertEqual((config.parent / "logs").stat().st_mode & 0o777, 0o700)
        out, _ = self.run_composer("--explain", job, "optimizers.lr=0.5")
        self.assertRegex(out, r"optimizers.lr +0.5 +command line `optimizers.lr=0.5`")
        self.assertRegex(out, r"precision +fp32 +default")
        self.assertRegex(out, r"seed +7 +.*secret.yaml:\d+:\d+")

    def test_full_disk_while_saving_loses_nothing(self):
        # A file-size limit simulates the full disk: writing fails with EFBIG, as it would with ENOSPC.
        import resource
        job = self.write_job("full", max_duration="10ba")
        self.run_composer("-n", 2, job)
        before = self.newest_checkpoint("full")
        big = self.folder / "big.yaml"
        big.write_text(job.read_text())

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))
        # Another file of the same run is permitted.
        process = self.start("-n", 2, "--max-restarts", 0, big, "max_duration=20ba", "resume_changes=job_file",
                             preexec_fn=limit)
        _, err = process.communicate(timeout=60)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, "(?i)too large|no space|full")
        self.run_composer("-n", 2, job, "max_duration=20ba", "resume_changes=job_file")
        self.assertEqual(self.summary("full")["generations"][-1]["start_step"], 10)
        self.assertTrue(pathlib.Path(before).exists())

    def test_another_batch_size_for_the_same_run(self):
        job = self.write_job("frozen", max_duration="10ba")
        self.run_composer(job)
        self.refused(job, "global_train_batch_size=8", "max_duration=20ba",
                     expect=["global_train_batch_size", "16", "8"])

    def test_validate(self):
        out, _ = self.run_composer("validate", self.write_job("fine"))
        self.refused("validate", self.write_job("wrong", seed="x"), expect=["seed"])


if __name__ == "__main__":
    unittest.main()
