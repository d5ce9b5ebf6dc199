"""A run saves to a folder behind a real sshd (Debian's openssh-server) and resumes from it; `composer store check` passes;
a host whose key is not known is refused with what ssh says. Skipped where there is no sshd: SSHD and SFTP_SERVER name
them elsewhere.
SPDX-License-Identifier: Apache-2.0"""
import os
import pathlib
import subprocess
import unittest

import harness

SSHD = pathlib.Path(os.environ.get("SSHD", "/usr/sbin/sshd"))
SERVER = pathlib.Path(os.environ.get("SFTP_SERVER", "/usr/lib/openssh/sftp-server"))


@unittest.skipUnless(SSHD.exists() and SERVER.exists(), "no sshd here: apt install openssh-server")
class SftpTest(harness.JobTest):
    def setUp(self):
        super().setUp()
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name], check=True)
        self.port = harness.free_port()
        (self.folder / "keys").write_text((self.folder / "user.pub").read_text())
        kind, key = (self.folder / "host.pub").read_text().split()[:2]
        (self.folder / "known").write_text(f"[127.0.0.1]:{self.port} {kind} {key}\n")
        (self.folder / "sshd_config").write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nUsePAM no\nStrictModes no\n"
            f"AuthorizedKeysFile {self.folder}/keys\nPidFile none\nSubsystem sftp {SERVER}\n")
        os.makedirs("/run/sshd", exist_ok=True)
        server = subprocess.Popen([SSHD, "-D", "-e", "-f", self.folder / "sshd_config"], stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        self.wait_for(lambda: subprocess.run(["bash", "-c", f"exec 3<>/dev/tcp/127.0.0.1/{self.port}"],
                                             stderr=subprocess.DEVNULL).returncode == 0, "sshd")
        self.place = f"sftp://127.0.0.1:{self.port}{self.folder}/there"

    def environment(self):
        return super().environment() | {"COMPOSER_SFTP_KEY_FILE": str(self.folder / "user"),
                                        "COMPOSER_SFTP_KNOWN_HOSTS_FILE": str(self.folder / "known")}

    def test_a_run_saves_there_and_goes_on_from_there(self):
        out, _ = self.run_composer("store", "check", self.place)
        self.assertIn("sftp://", out)
        self.run_composer(self.write_job("part", max_duration="4ba", save_folder=self.place, save_interval="2ba"))
        self.run_composer(self.write_job("whole", max_duration="8ba"))
        self.run_composer(self.write_job("rest", max_duration="8ba", load_path=self.place))
        self.assert_same_losses(self.losses("rest"), self.losses("whole")[4:])
        self.assertTrue(list((self.folder / "there").rglob("manifest.json")))

    def test_an_unknown_host_is_refused_with_the_reason(self):
        (self.folder / "known").write_text("")
        _, err = self.run_composer("checkpoint", "list", self.place, code=64)
        self.assertIn("Host key verification failed", err)


if __name__ == "__main__":
    unittest.main()
