"""--help of every command and subcommand, including those of composer_worker, gives exit code 0 and the right text on
stdout."""
import re
import unittest

import harness

SHELL_WORDS = r"\n    (\w+)\)\n      if \[\[ \$word == -\* \]\]; then\n        mapfile -t COMPREPLY < <\(compgen -W '([^']*)'"


class HelpTest(harness.JobTest):
    def help(self, *words):
        out, err = self.run_composer(*words, code=0)
        self.assertEqual(err, "", words)
        for line in out.splitlines():
            self.assertLessEqual(len(line), 100, line)
        return out

    def commands(self):
        """Returns the names of the command table, as listed by `composer --help`."""
        text = self.help("--help")
        lines = text[text.index("\ncommands"):text.index("\nflags")].splitlines()[2:]
        return [line.split()[0] for line in lines if line.startswith("  ") and not line.startswith("   ")]

    def test_every_command(self):
        commands = self.commands()
        for name in ("run", "serve", "status", "top", "save", "drain", "stop", "logs", "doctor", "env", "convert", "methods",
                     "eval", "predict", "generate", "validate", "checkpoint", "data", "store", "tokenize", "trace", "version", "help"):
            self.assertIn(name, commands)
        for name in commands:
            for words in ((name, "--help"), (name, "-h"), ("help", name)):
                with self.subTest(words=words):
                    text = self.help(*words)
                    self.assertIn("usage:" if name in ("run", "help") else f"usage: composer {name}", text)

    def test_every_subcommand(self):
        completion, _ = self.run_composer("--print-completion", "bash", code=0)
        offered = dict(re.findall(SHELL_WORDS, completion))
        for tool, expected in (("checkpoint", ["list", "show", "verify", "diff", "export", "import", "prune"]),
                               ("data", ["write", "inspect", "verify", "stats", "bench", "show", "merge"])):
            listed = self.help(tool, "--help")
            names = re.findall(rf"composer {tool} (\w+)", listed)
            self.assertEqual(names, expected)
            flags = set()
            for name in names:
                text = self.help(tool, name, "--help")
                self.assertTrue(text.startswith(f"usage: composer {tool} {name} "), text)
                flags |= set(re.findall(r"^ {2,}(?:-\w, )? *(--[a-z-]+)", text, re.MULTILINE))
            # The completion offers what the commands accept.
            self.assertEqual(set(offered[tool].split()) - {"--help"}, flags - {"--help"})
        flags = set(re.findall(r"^ {2,}(--[a-z-]+)", self.help("tokenize", "--help"), re.MULTILINE))
        self.assertEqual(set(offered["tokenize"].split()) - {"--help"}, flags - {"--help"})
        self.assertIn("usage: composer trace merge FOLDER", self.help("trace", "merge", "--help"))

    def test_an_unknown_subcommand_is_named(self):
        for tool, wrong, right in (("checkpoint", "lst", "list"), ("data", "wirte", "write")):
            _, err = self.run_composer(tool, wrong, code=64)
            self.assertIn(f"did you mean `{right}`?", err)


if __name__ == "__main__":
    unittest.main()
