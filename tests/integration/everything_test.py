"""Runs one job with every callback, logger and the profiler, on 2 ranks: parts that work alone must work together."""
import json

import harness

JOB = {
    "model": {"name": "mlp", "sizes": [64, 64, 10]},
    "train_dataloader": {"name": "gaussian_classification", "size": 1024, "num_workers": 2, "prefetch_factor": 2},
    "eval_dataloader": [
        {"name": "gaussian_classification", "size": 301, "sample_seed": 3, "label": "a", "eval_interval": "20ba",
         "metric_names": ["Accuracy"]},
        {"name": "gaussian_classification", "size": 100, "sample_seed": 4, "label": "b", "eval_interval": "1ep"},
    ],
    "global_train_batch_size": 32,
    "device_train_microbatch_size": "auto",
    "precision": "amp_bf16",
    "optimizers": {"name": "adamw", "lr": 0.003, "no_decay_on_bias_and_norm": True,
                   "param_groups": [{"pattern": "layers.1.*", "lr": 0.001}]},
    "schedulers": [{"name": "cosine_annealing_with_warmup", "t_warmup": "10ba"},
                   {"name": "reduce_lr_on_plateau", "monitor": "metrics/a/MulticlassAccuracy", "mode": "max",
                    "patience": 1}],
    "max_duration": "2ep",
    "save_interval": "1ep",
    "save_num_checkpoints_to_keep": 1,
    "loggers": {"tensorboard": {}, "file_logger": {}},
    "log_to_console": True,
    "console_log_interval": "30ba",
    "progress_bar": True,
    "auto_log_hparams": True,
    "profiler": {"schedule": {"skip_first": 5, "active": 3}},
    "callbacks": {
        "speed_monitor": {"window_size": 20}, "lr_monitor": {}, "memory_monitor": {}, "nan_monitor": {},
        "runtime_estimator": {},
        "optimizer_monitor": {"batch_log_interval": 20}, "activation_monitor": {"interval": "20ba"},
        "system_metrics_monitor": {},
        "oom_observer": {}, "early_stopper": {"monitor": "metrics/a/MulticlassAccuracy", "patience": "200ba"},
        "threshold_stopper": {"monitor": "metrics/a/MulticlassAccuracy", "threshold": 2.0}, "free_outputs": {},
        "export_for_inference": {}, "memory_snapshot": {"skip_batches": 12},
    },
}


class EverythingTest(harness.JobTest):
    def test_all_at_once(self):
        weights = {"checkpoint_saver": {"folder": str(self.folder / "weights"), "weights_only": True,
                                        "save_interval": "40ba"}}
        job = self.folder / "all.yaml"
        job.write_text(json.dumps({**JOB, "run_folder": str(self.folder / "runs/all"),
                                   "callbacks": {**JOB["callbacks"], **weights}}))
        _, err = self.run_composer("-n", 2, "--max-restarts", 0, job, timeout=180)
        run = self.folder / "runs/all"
        self.assertEqual(self.summary("all")["steps"], 64, err)
        for rank in (0, 1):
            trace = json.loads(next(run.glob(f"traces/ep0-ba*-rank{rank}.json")).read_text())
            self.assertTrue(any(event.get("name") == "event/batch_start" for event in trace["traceEvents"]))
        for pattern in ("traces/merged_trace.json", "traces/*.verdict.txt", "traces/*.memory.html",
                        "traces/*.memory_snapshot.pickle",
                        "tensorboard/*tfevents*", "export/model.safetensors", "export/config.json",
                        "logs/logs-rank0.txt",
                        "checkpoints/ep2-ba64/manifest.json", "../../weights/*ba40/manifest.json"):
            self.assertTrue(list(run.glob(pattern)), f"{pattern} is missing\n{err}")
        names = set().union(*self.metrics("all"))
        for name in ("loss/train/total", "metrics/a/MulticlassAccuracy", "metrics/b/CrossEntropy",
                     "throughput/samples_per_sec", "lr-AdamW/group0", "time/remaining_estimate"):
            self.assertIn(name, names)
        for part in ("activations/", "l2_norm/", "cpu_", "memory/"):
            self.assertTrue(any(name.startswith(part) for name in names), f"nothing of {part} in {sorted(names)}")


if __name__ == "__main__":
    import unittest
    unittest.main()
