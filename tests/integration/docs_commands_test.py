"""The commands and YAML of the documents: every `composer` command names a subcommand and flags that exist, every YAML
block is accepted as part of a job, and (DOCS=run, which takes a minute) the commands of the pages below are run as they
stand. A page with commands that is neither run nor listed with the reason fails. SPDX-License-Identifier: Apache-2.0"""
import functools
import gzip
import os
import re
import subprocess
import unittest

import yaml_blocks
import harness

PAGES = [harness.ROOT / "README.md", *sorted((harness.ROOT / "docs").glob("*.md"))]
# Pages whose commands are run: what they need is made by prepare().
RUN = {"checkpoints.md", "getting_started.md", "launcher.md", "runs.md", "tokenizers.md"}
NOT_RUN = {
    "README.md": "`./dev demo` installs packages and builds; CI runs the demo's training (recovery_test.py)",
    "commands.md": "a list of patterns; the pages that it stands for are run",
    "diffusion.md": "needs published weights (network)",
    "install.md": "needs root and packages; package_test.py, tools/package/try.sh",
    "kubernetes.md": "needs a cluster; deploy_test.py validates the manifests",
    "models.md": "needs a Hugging Face folder; hf_test.py",
    "parallelism.md": "output of `composer plan`; plan_test.py runs the same",
    "recipes.md": "takes hours; speedrun_test.py runs it small",
    "slurm.md": "needs a cluster; slurm_test.py has one",
    "spot.md": "needs a cloud's metadata service; preemption_test.py",
    "vision.md": "needs published weights (network)",
}
# Commands of pages that are run which are not: a pattern, the reason.
LEFT_OUT = {r"--master_addr|--rdzv-endpoint": "needs several nodes", r"--follow": "never ends", r"models/gpt2": "needs published files",
            r"~/": "writes into the home folder", r"man -l": "needs man"}

# Blocks of YAML that need more than a job: a page, the number of the block.
WITHOUT_YAML = {("plugins.md", 0): "needs a built plugin; plugin_test.py"}


def blocks(page):
    """The fenced blocks without a language, and those of shells."""
    return [text for language, text in yaml_blocks.fenced(page) if language in ("", "sh", "bash", "console")]


def commands(page):
    """Lines of blocks that begin with a command of ours, without what explains them."""
    for text in blocks(page):
        for line in text.splitlines():
            line = line.strip().removeprefix("$ ")
            if re.match(r"(\S+/)?composer [^(]|(zcat|echo|source) .*composer ", line):
                yield re.sub(r"(\s{2,}|\s#).*", "", line)


def inline(page):
    """`composer …` in the text, where it is more than a name."""
    text = yaml_blocks.without_fences(page)
    return [code for code in re.findall(r"`(composer [^`]+)`", text.replace("\n", " ")) if "…" not in code]


class DocsCommandsTest(harness.JobTest):
    @functools.cached_property
    def known(self):
        """The names of the commands."""
        text, _ = self.run_composer("--help")
        listed = text[text.index("\ncommands"):text.index("\nflags")].splitlines()[2:]
        return {line.split()[0] for line in listed if re.match(r"  \w", line)}

    @functools.lru_cache(maxsize=None)
    def flags(self, *command):
        text, _ = self.run_composer(*(command + ("--help",) if command else ("--print-completion", "bash")))
        return set(re.findall(r"(?<![\w-])(--?[\w-]+)", text.replace("_", "-")))

    def check(self, line):
        """Returns what a command names that does not exist."""
        words = re.sub(r"\[|\]|\.\.\.|'[^']*'|\"[^\"]*\"", " ", line[line.index("composer ") + 9:].split("|")[0]).split()
        command = next((word for word in words if word in self.known), None)
        at = words.index(command) if command else len(words)
        known = self.flags() | (self.flags(command) if command else set())
        if command in ("checkpoint", "data", "tokenizer", "plugin") and at + 1 < len(words) and re.fullmatch(r"[a-z]+", words[at + 1]):
            known |= self.flags(command, words[at + 1])
        named = [word.partition("=")[0].replace("_", "-") for word in words if re.match(r"--?[a-z]", word)]
        return [flag for flag in named if flag not in known and not any(k.startswith(flag) for k in known)]

    def test_every_command_and_flag_exists(self):
        count = 0
        for page in PAGES:
            for line in [*commands(page), *inline(page)]:
                count += 1
                with self.subTest(page=page.name, command=line):
                    self.assertEqual(self.check(line), [])
        self.assertGreater(count, 100)

    def test_every_page_with_commands_is_run_or_says_why_not(self):
        pages = {page.name for page in PAGES if list(commands(page))}
        self.assertEqual(pages - RUN - set(NOT_RUN), set(), "run its commands here, or say why not")
        self.assertLessEqual(RUN, pages)

    def test_yaml_is_accepted(self):
        """Each block, put into a small job, has only keys and values that the launcher takes."""
        for page in PAGES:
            for number, text in enumerate(yaml_blocks.of(page)):
                with self.subTest(page=page.name, block=number):
                    path = self.folder / f"{page.stem}-{number}.yaml"
                    path.write_text(yaml_blocks.completed(text, harness.TINY_JOB))
                    if (page.name, number) in WITHOUT_YAML:
                        continue
                    process = self.start("--explain", "-n", 2, path)
                    out, err = process.communicate(timeout=30)
                    self.assertEqual(process.returncode, 0, f"{err}\n{text}")

    def prepare(self):
        """Runs, checkpoints and texts with the names that the pages use."""
        for name in ("fashion", "x", "a", "b"):
            self.run_composer(self.write_job(name, max_duration="20ba", save_interval="5ba", eval_dataloader=dict(
                harness.TINY_JOB["train_dataloader"], size=32)), timeout=120)
        text = self.folder / "corpus"
        text.mkdir()
        (text / "a.txt.gz").write_bytes(gzip.compress(b"In the beginning was the word. " * 200))
        (self.folder / "lines.jsonl").write_text('{"text": "in the beginning was the word"}\n' * 100)

    def run_page(self, page, names, replaced):
        path = f"{self.bin}:{os.environ['PATH']}"
        for line in commands(page):
            if any(re.search(pattern, line) for pattern in LEFT_OUT):
                continue
            for word, value in replaced.items():
                line = re.sub(rf"(?<![\w./]){re.escape(word)}(?![\w./])", value, line)
            with self.subTest(page=page.name, command=line):
                done = subprocess.run(["bash", "-ec", line], cwd=self.folder, env=dict(self.environment(), PATH=path, TERM="dumb"),
                                      capture_output=True, text=True, timeout=120, check=False)
                self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}{done.stderr}")
                names.append(line)

    @unittest.skipUnless(os.environ.get("DOCS") == "run", "DOCS=run runs them")
    def test_the_commands_of_the_pages_run(self):
        self.prepare()
        names = []
        last = "runs/x/checkpoints/ep1-ba20"
        self.run_page(harness.ROOT / "docs/runs.md", names, {"FOLDER": "runs"})
        self.run_page(harness.ROOT / "docs/checkpoints.md", names, {
            "x.onnx": "x.onnx --shape 32", "x.ts": "x.ts --shape 32", "A": last, "B": last, "F": "imported", "--keep 3": "--keep 3 --force", "hf/": "out/", "model.safetensors": "out/model.safetensors"})
        self.run_page(harness.ROOT / "docs/tokenizers.md", names, {"32000": "300"})
        self.run_page(harness.ROOT / "docs/launcher.md", names, {})
        first = harness.ROOT / "docs/getting_started.md"
        (self.folder / "first.yaml").write_text(yaml_blocks.of(first)[0])
        self.run_page(first, names, {})
        self.assertGreaterEqual(len(names), 15)


if __name__ == "__main__":
    unittest.main()
