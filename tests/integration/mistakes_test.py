"""Every planted mistake of the panel (mistakes.py) is answered with field, value and fix. MISTAKES=all has the slow ones,
too; MISTAKES='a typo' those whose names contain the text; MISTAKES_SHOW=1 prints the answers.
SPDX-License-Identifier: Apache-2.0"""
import os
import re
import resource
import time
import unittest

import harness
import mistakes

WANTED = os.environ.get("MISTAKES", "")
LIMIT_S = 60


class MistakesTest(harness.JobTest):
    """How a mistake is planted and answered; benchmarks/mistakes.py uses it, too."""
    began = used_before = processors = None

    @staticmethod
    def used():
        """The processors' seconds of all programs that have ended."""
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return children.ru_utime + children.ru_stime

    def planted(self):
        """Called by a mistake that took its time to plant: the clock begins now."""
        self.began, self.used_before = time.monotonic(), self.used()

    def start_program(self, command, **options):
        self.began, self.used_before = time.monotonic(), self.used()
        return super().start_program(command, **options)

    def answer(self, mistake):
        """Returns (exit code, what was said, seconds until the end from the moment of the mistake)."""
        planted = mistake.plant(self)
        began = self.began
        nodes = planted if isinstance(planted, tuple) else (planted,)
        process = nodes[0]
        if len(nodes) > 1:  # of nodes that contradict each other the one that comes last is refused
            process = self.wait_for(lambda: next((node for node in nodes if node.poll() is not None), None), "a refusal", LIMIT_S)
        out, err = process.communicate(timeout=LIMIT_S)
        self.processors = self.used() - self.used_before
        return process.returncode, out + err, time.monotonic() - began

    @staticmethod
    def missing(mistake, code, said):
        """What a good answer would have and this one lacks."""
        codes = mistake.code if isinstance(mistake.code, tuple) else (mistake.code,)
        lacks = [part for part, pattern in mistake.says.items() if not re.search(pattern, said)]
        lacks += [f"exit code {code}"] if code not in codes else []
        lacks += ["brevity"] if len(said.splitlines()) > 25 else []
        return lacks + (["Python's stack"] if "Traceback" in said else [])

    def test_each_is_answered(self):
        for mistake in mistakes.PANEL:
            if (mistake.slow and not WANTED) or (WANTED not in ("", "all") and WANTED not in mistake.name):
                continue
            with self.subTest(mistake.name):
                code, said, seconds = self.answer(mistake)
                if "MISTAKES_SHOW" in os.environ:
                    print(f"== {mistake.name}: {seconds:.2f} s, exit {code}, lacks {self.missing(mistake, code, said)}\n{said}")
                self.assertEqual(self.missing(mistake, code, said), [], said)


if __name__ == "__main__":
    unittest.main()
