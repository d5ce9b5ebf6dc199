"""Checkpoints on a real SSH server: Debian's sshd on a port of its own, with keys made for the test. `composer store
check` finds no fault, a job saves there, and another number of ranks goes on from there; a key that the server does not
know is an error that says so. Skipped without sshd (apt install openssh-server, or unpacked below COMPOSER_PEERS/openssh).
SPDX-License-Identifier: Apache-2.0"""
import getpass
import os
import pathlib
import shutil
import subprocess
import unittest

import harness

PEERS = pathlib.Path(os.environ.get("COMPOSER_PEERS", "/tmp/composer-peers"))
SSHD = next((str(path) for path in (pathlib.Path("/usr/sbin/sshd"), PEERS / "openssh/root/usr/sbin/sshd")
             if path.exists()), None)


@unittest.skipUnless(SSHD and shutil.which("ssh"), "no sshd and ssh here")
class SftpTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        for name in ("host", "user", "stranger"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        self.port = harness.free_port()
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {(self.folder / 'host.pub').read_text()}")
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nPidFile none\nStrictModes no\n"
            f"AuthorizedKeysFile {self.folder}/user.pub\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n"
            "PermitRootLogin yes\nSubsystem sftp internal-sftp\n")
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)  # where sshd gives up its privileges
        server = self.start_program([SSHD, "-D", "-e", "-f", self.folder / "sshd_config"])
        self.wait_for(lambda: "Server listening" in server.stderr.readline(), "sshd listens")
        self.place = f"sftp://{getpass.getuser()}@127.0.0.1:{self.port}{self.folder}/stored"
        (self.folder / "stored").mkdir()

    def with_key(self, name):
        return dict(self.environment(), COMPOSER_SFTP_KEY_FILE=str(self.folder / name),
                    COMPOSER_SFTP_KNOWN_HOSTS_FILE=str(self.folder / "known"))

    def test_a_store_has_no_fault_and_a_job_saves_there_and_goes_on(self):
        out, _ = self.run_composer("store", "check", self.place, env=self.with_key("user"))
        self.assertNotIn("fault", out.lower())
        job = self.write_job("far", save_folder=self.place)
        self.run_composer("-n", 2, job, "max_duration=20ba", "schedulers.t_max=40ba", env=self.with_key("user"),
                          timeout=200)
        self.assertTrue((self.folder / "stored/ep1-ba20/manifest.json").exists())
        self.run_composer("-n", 1, job, "schedulers.t_max=40ba", env=self.with_key("user"), timeout=200)
        self.run_composer("-n", 1, self.write_job("near"), timeout=200)
        self.assert_same_losses(self.losses("far")[20:], self.losses("near")[20:])

    def test_a_key_that_the_server_does_not_know_is_named(self):
        out, _ = self.run_composer("store", "check", self.place, env=self.with_key("stranger"), code=1)
        self.assertIn("Permission denied (publickey)", out)


if __name__ == "__main__":
    unittest.main()
