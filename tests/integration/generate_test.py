"""Runs the real binaries with the callback `generate`: texts go to the run folder, are the same on any number of ranks
and however the model is distributed, and change nothing in training. A prompt that does not fit is a user error."""
import json
import unittest

import harness
from fsdp_test import GPT_JOB

GENERATE = {"prompts": ["In the", "word", "t"], "interval": "5ba", "max_new_tokens": 6, "do_sample": True,
            "temperature": 0.8, "batch_size": 2}


class GenerateTest(harness.JobTest):
    def job(self, name, generate=None, **changes):
        text = self.folder / "text.txt"
        text.write_text("In the beginning was the word, and the word was learned by heart. " * 100)
        job = dict(GPT_JOB, **changes)
        job["train_dataloader"] = dict(job["train_dataloader"], path=str(text))
        if generate is not None:
            job["callbacks"] = {"generate": generate}
        return self.write_job(name, **job)

    def tables(self, name):
        return [json.loads(line) for line in (self.run_folder(name) / "tables.jsonl").read_text().splitlines()]

    def test_texts_are_the_same_however_the_model_is_spread_and_training_is_too(self):
        self.run_composer("-n", 1, self.job("plain"))
        out, _ = self.run_composer("-n", 1, self.job("one", GENERATE, log_to_console=True, console_stream="stdout",
                                                     console_log_interval="1ep", progress_bar=False,
                                                     loggers={"tensorboard": None}))
        self.assertEqual(self.losses("one"), self.losses("plain"))
        self.assert_same_state(self.newest_checkpoint("plain"), self.newest_checkpoint("one"))
        tables = self.tables("one")
        self.assertEqual([table["time/batch"] for table in tables], [5, 10, 12], "every five batches and at the end")
        for table in tables:
            self.assertEqual((table["table"], table["columns"]), ("generations", ["prompt", "generation"]))
            self.assertEqual([row[0] for row in table["data"]], GENERATE["prompts"])
        last = json.dumps(tables[-1]["data"], ensure_ascii=False, separators=(",", ":"))
        self.assertIn('"data":' + last, out, "the console has the last table")
        events = b"".join(path.read_bytes() for path in (self.run_folder("one") / "tensorboard").iterdir())
        self.assertEqual(events.count(b"| prompt | generation |"), 3)
        for name, ranks, parallelism, generate in [
                ("full", 2, {"fsdp": {}}, {}),
                ("more ranks than prompts", 4, {"fsdp": {}}, {"summon_full_params": True}),
                ("zero2", 3, {"fsdp": {"sharding_strategy": "SHARD_GRAD_OP"}}, {}),
                ("tensor", 4, {"fsdp": {}, "tp": {"tensor_parallel_degree": 2}}, {"eos_token_id": 0}),
                ("ddp", 2, None, {"use_cache": False})]:
            with self.subTest(name):
                name = name.replace(" ", "_")
                self.run_composer("-n", ranks,
                                  self.job(name, dict(GENERATE, **generate), parallelism_config=parallelism))
                self.assertEqual([table["data"] for table in self.tables(name)], [table["data"] for table in tables])
                self.assert_same_losses(self.losses(name), self.losses("plain"))

    def test_a_run_that_goes_on_generates_what_it_would_have(self):
        self.run_composer("-n", 2, self.job("through", GENERATE, parallelism_config={"fsdp": {}}))
        self.run_composer("-n", 2, self.job("in_two", GENERATE, parallelism_config={"fsdp": {}}, max_duration="6ba"))
        self.run_composer("-n", 2, self.job("in_two", GENERATE, parallelism_config={"fsdp": {}}))
        self.assertEqual(self.losses("in_two"), self.losses("through"))
        through, in_two = self.tables("through"), self.tables("in_two")
        self.assertEqual([table["time/batch"] for table in in_two], [5, 6, 10, 12])
        self.assertEqual([table["data"] for table in in_two if table["time/batch"] != 6],
                         [table["data"] for table in through])

    def test_a_complete_run_that_is_started_again_generates_from_its_newest_checkpoint(self):
        self.run_composer("-n", 2, self.job("done", parallelism_config={"fsdp": {}}))
        losses = self.losses("done")
        out, _ = self.run_composer("-n", 1, self.job("done"),
                                   "+callbacks={generate: {interval: 0ba, prompts: [the word], max_new_tokens: 4}}",
                                   "log_to_console=true", "console_stream=stdout")
        (table,) = self.tables("done")
        self.assertEqual((table["time/batch"], table["data"][0][0]), (12, "the word"))
        self.assertIn("the word", out)
        self.assertEqual(self.losses("done"), losses)
        # Any checkpoint will do, so the run begins where it is to end.
        self.run_composer("-n", 1, self.job("other", load_path=str(self.run_folder("done")), max_duration="1ba"),
                          "+callbacks={generate: {interval: 0ba, prompts: [the word], max_new_tokens: 4}}")
        self.assertEqual(self.tables("other")[0]["data"], table["data"])
        self.assertEqual(self.losses("other"), [])

    def test_in_context_tasks_are_the_same_on_any_number_of_ranks_and_in_eval(self):
        rows = [{"query": "In the", "choices": ["beginning", "xq", "zzz"], "gold": 0},
                {"query": "was learned", "choices": ["9", "by heart"], "gold": 1},
                {"query": "and", "choices": ["the word", "77", "8"], "gold": 1}]
        choices = self.folder / "choices.jsonl"
        choices.write_text("".join(json.dumps(row) + "\n" for row in rows))
        words = self.folder / "words.jsonl"
        words.write_text("".join(json.dumps({"context": c, "continuation": w}) + "\n"
                                 for c, w in [("In the beginning", "was"), ("and the", "word"), ("by", "qq")]))
        tasks = [{"label": "pick", "dataset_uri": str(choices), "icl_task_type": "multiple_choice",
                  "num_fewshot": [0, 1], "batch_size": 2},
                 {"label": "next", "dataset_uri": str(words), "icl_task_type": "language_modeling"}]
        spoken = self.folder / "spoken.jsonl"
        spoken.write_text("".join(json.dumps(row) + "\n" for row in [
            {"context": "In the", "answer": "begin"}, {"context": "nd the", "answer": "Word"},
            {"context": "by", "answer": "qqqq", "aliases": ["zz"]}, {"context": "In the", "answer": "x", "aliases": ["The"]},
            {"context": "as the", "answer": "word"}]))
        tasks.append({"label": "speak", "dataset_uri": str(spoken), "icl_task_type": "generation_task_with_answers",
                      "batch_size": 2, "early_stopping_criteria": ["."],
                      "generation_kwargs": {"num_beams": 2, "min_new_tokens": 1}})
        schema = self.folder / "schema.jsonl"
        schema.write_text("".join(json.dumps({"context_options": ["In the", "zq"], "continuation": "beginning",
                                              "gold": gold, "category": category}) + "\n"
                                  for gold, category in [(0, "b"), (1, "a"), (0, "b")]))
        tasks.append({"label": "place", "dataset_uri": str(schema), "icl_task_type": "schema", "has_categories": True})
        gauntlet = {"weighting": "SAMPLE_SZ", "categories": [
            {"name": "choices", "benchmarks": [{"name": "pick", "num_fewshot": 0, "random_baseline": 0.5},
                                               {"name": "next", "num_fewshot": 0}]},
            {"name": "places", "benchmarks": [{"name": "place", "num_fewshot": 0}]},
            {"name": "lost", "benchmarks": [{"name": "pick", "num_fewshot": 7}]}]}
        changes = dict(icl_tasks=tasks, eval_gauntlet=gauntlet, icl_seq_len=16, tokenizer={"name": "bytes", "eos": True}, eval_interval="6ba",
                       model=dict(GPT_JOB["model"], vocab_size=257),
                       optimizers={"name": "adam", "lr": 0.01}, max_duration="30ba")
        names = ["metrics/pick/0-shot/InContextLearningMultipleChoiceAccuracy",
                 "metrics/pick/1-shot/InContextLearningMultipleChoiceAccuracy",
                 "metrics/next/0-shot/InContextLearningLMAccuracy",
                 "metrics/speak/0-shot/InContextLearningGenerationExactMatchAccuracy",
                 "metrics/place/0-shot/a/InContextLearningMultipleChoiceAccuracy",
                 "metrics/place/0-shot/b/InContextLearningMultipleChoiceAccuracy"]
        scores = [f"icl/metrics/eval_gauntlet/{name}" for name in ("choices", "places", "default_average")]
        found = {}
        for name, ranks, parallelism in (("icl_one", 1, None), ("icl_three", 3, {"fsdp": {}})):
            self.run_composer("-n", ranks, self.job(name, parallelism_config=parallelism, **changes))
            found[name] = [[record[key] for record in self.metrics(name) if key in record] for key in names + scores]
            self.assertEqual([len(values) for values in found[name]], [5] * 9)
        self.assertEqual(found["icl_three"], found["icl_one"])
        self.assertAlmostEqual(found["icl_one"][0][-1], 2 / 3, msg="the text has the first two right ones")
        pick, _, following, speak, a, b, choices_score, places, average = [values[-1] for values in found["icl_one"]]
        self.assertEqual((a, b), (0, 1), msg="the text has the first of the two places")
        self.assertGreaterEqual(speak, 1 / 5, msg="every text begins with what normalisation leaves of `The`, which is nothing")
        self.assertLess(speak, 1, msg="the text has no qqqq")
        self.assertAlmostEqual(choices_score, ((pick - 0.5) / 0.5 + following) / 2)
        self.assertAlmostEqual(places, 0.5)
        self.assertAlmostEqual(average, (choices_score + places) / 2)
        out, _ = self.run_composer("-n", 2, "eval", self.job("icl_one", **changes), "--json")
        self.assertEqual([json.loads(out)["metrics"][key] for key in names],
                         [values[-1] for values in found["icl_one"][:len(names)]])
        self.assertEqual([json.loads(out)["metrics"][key] for key in scores],
                         [values[-1] for values in found["icl_one"][len(names):]], msg="its averages are results, too")
        for change, message in (({"tokenizer": None}, "icl_tasks.0: in-context tasks are texts"),
                                ({"icl_tasks": [dict(tasks[0], dataset_uri="no.jsonl")]}, "icl_tasks.0"),
                                ({"icl_tasks": [dict(tasks[0], icl_task_type="schema")]}, "there is no text `continuation`"),
                                ({"icl_tasks": [dict(tasks[0], icl_task_type="generation_task_with_answers")]},
                                 "there is no text `context`"),
                                ({"icl_tasks": [dict(tasks[0], cot_delimiter="#")]}, "icl_tasks.0.cot_delimiter: is of"),
                                ({"icl_tasks": tasks[2:3], "tokenizer": {"name": "bytes"}}, "an end-of-text token"),
                                ({"icl_tasks": [dict(tasks[0], has_categories=True)]},
                                 "icl_tasks.0.has_categories: "),
                                ({"eval_gauntlet": dict(gauntlet, averages={"mean": ["choises"]})},
                                 "did you mean `choices`?"),
                                ({"eval_gauntlet": dict(gauntlet, subtract_random_baseline=False)},
                                 "eval_gauntlet.rescale_accuracy: needs subtract_random_baseline"),
                                ({"icl_tasks": [tasks[0], tasks[0]]}, "another evaluation has this label")):
            _, err = self.run_composer("-n", 1, self.job("icl_wrong", **dict(changes, **change)), code=64)
            self.assertIn(message, err)

    def test_the_loss_in_chunks_trains_as_whole_logits(self):
        self.run_composer("-n", 1, self.job("whole"))
        model = {"name": "gpt", "n_layers": 3, "n_heads": 2, "d_model": 32, "max_seq_len": 16, "vocab_size": 256,
                 "loss_chunk_tokens": 20}
        for name, ranks, parallelism in (("chunks", 1, None), ("chunks_full", 2, {"fsdp": {}}),
                                         ("chunks_tp", 2, {"tp": {"tensor_parallel_degree": 2}})):
            self.run_composer("-n", ranks, self.job(name, model=model, parallelism_config=parallelism))
            self.assert_same_losses(self.losses(name), self.losses("whole"))

    def test_mistakes_are_user_errors(self):
        def error(generate, **changes):
            return self.run_composer("-n", 1, self.job("wrong", generate, **changes), code=64)[1]

        self.assertIn("generate: prompts[0] of 6 tokens and max_new_tokens 11 are more than the model's 16",
                      error(dict(GENERATE, max_new_tokens=11)))
        self.assertIn("generate.prompts: is required", error({"interval": "1ba"}))
        self.assertIn("did you mean `temperature`?", error(dict(GENERATE, temperatur=1)))
        _, err = self.run_composer("-n", 1, self.write_job("mlp", callbacks={"generate": GENERATE}), code=64)
        self.assertIn("generate: the model is not a language model", err)


if __name__ == "__main__":
    unittest.main()
