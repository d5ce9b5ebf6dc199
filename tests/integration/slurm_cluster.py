"""A real Slurm cluster of virtual nodes on this one machine: one slurmctld, a slurmd for each node, and its own munged.
Everything is in one folder and ends with stop(). Needs root and Debian's slurm-wlm and munge; why_not() reports what is
missing.

The nodes are called n0, n1 ... Those names resolve only inside the cluster: each slurmd has its own mount namespace
with another /etc/hosts. ctld and the slurmds stay in the foreground, so that they are children of the test."""
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import time

import harness

PROGRAMS = ("slurmctld", "slurmd", "srun", "sbatch", "scontrol", "scancel", "squeue", "sinfo", "munged", "unshare")


def why_not():
    """Returns "" when a cluster can be started here, else the reason why not."""
    if os.geteuid() != 0:
        return "slurmd needs root"
    missing = [p for p in PROGRAMS if find(p) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (apt-get install slurm-wlm munge)"
    probe = subprocess.run(["unshare", "--mount", "--propagation", "private", "mount", "--bind", "/etc/hosts",
                            "/etc/hosts"], capture_output=True, text=True)
    return f"no mount namespaces here: {probe.stderr.strip()}" if probe.returncode else ""


def find(program):
    return shutil.which(program, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


class Cluster:
    def __init__(self, folder, nodes):
        self.folder, self.nodes = pathlib.Path(folder), nodes
        self.children = []
        self.environment = dict({k: v for k, v in os.environ.items() if not k.startswith(("SLURM_", "COMPOSER_"))},
                                SLURM_CONF=str(self.folder / "slurm.conf"))

    def start(self):
        for name in ("state", "spool", "log"):
            (self.folder / name).mkdir()
        self._write_hosts()
        self._start_munge()
        self._write_conf()
        self._spawn("ctld", [find("slurmctld"), "-D", "-f", self.folder / "slurm.conf"])
        self._wait(lambda: "UP" in self.run("scontrol", "ping", check=False).stdout, "slurmctld")
        for n in range(self.nodes):
            bind = f'mount --bind "{self.folder}/hosts" /etc/hosts && exec "$@"'
            self._spawn(f"slurmd-n{n}", ["unshare", "--mount", "--propagation", "private", "sh", "-c", bind, "sh",
                                         find("slurmd"), "-D", "-f", self.folder / "slurm.conf", "-N", f"n{n}"])
        self._wait(lambda: self.run("sinfo", "-h", "-o", "%D", "-t", "idle",
                                    check=False).stdout.strip() == str(self.nodes), "idle nodes")
        return self

    def stop(self):
        self.run("scancel", "--signal=KILL", "--full", "--user", str(os.getuid()), check=False)
        self.run("scancel", "--user", str(os.getuid()), check=False)
        try:
            self._wait(lambda: not self.steps(), "the end of the job steps", 20)
        finally:
            for child in reversed(self.children):
                child.terminate()
            for child in self.children:
                try:
                    child.wait(10)
                except subprocess.TimeoutExpired:
                    child.kill()
                    child.wait()

    def run(self, *words, check=True, timeout=60, **options):
        try:
            done = subprocess.run([str(w) for w in words], env=self.environment, capture_output=True, text=True,
                                  timeout=timeout, stdin=subprocess.DEVNULL, **options)
        except subprocess.TimeoutExpired as error:
            processes = subprocess.run(["ps", "-eo", "pid,ppid,stat,wchan:20,etime,args"], capture_output=True,
                                       text=True).stdout
            shown = "".join(line[:200] + "\n" for line in processes.splitlines() if "slurm" in line
                            or "composer" in line)
            raise AssertionError(
                f"{' '.join(map(str, words))}: not within {timeout} s\n{error.stdout}{error.stderr}\n{shown}{self.logs()}") from None
        if check and done.returncode != 0:
            raise AssertionError(f"{' '.join(map(str, words))}: {done.returncode}\n{done.stdout}{done.stderr}")
        return done

    def steps(self):
        """Returns the pids of the slurmstepds of this cluster, which the slurmds started."""
        conf = f"SLURM_CONF={self.folder}/slurm.conf".encode()
        found = []
        for entry in pathlib.Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and (entry / "cmdline").read_bytes().startswith(b"slurmstepd") and conf in (
                        entry / "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:
                pass
        return found

    def job(self, job_id):
        text = self.run("scontrol", "--oneliner", "show", "job", job_id).stdout
        return dict(field.split("=", 1) for field in text.split() if "=" in field)

    def logs(self):
        return "".join(f"== {p.name}\n{p.read_text()[-3000:]}" for p in sorted((self.folder / "log").iterdir()))

    def _spawn(self, name, words):
        with open(self.folder / "log" / f"{name}.out", "w") as out:
            self.children.append(subprocess.Popen([str(w) for w in words], env=self.environment,
                                                  stdin=subprocess.DEVNULL, stdout=out, stderr=out))

    def _wait(self, condition, what, timeout=30):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"{what}: not within {timeout} s\n{self.logs()}")
            time.sleep(0.05)

    def _write_hosts(self):
        names = " ".join(f"n{n}" for n in range(self.nodes))
        (self.folder / "hosts").write_text(pathlib.Path("/etc/hosts").read_text().rstrip("\n")
                                           + f"\n127.0.0.1 {names}\n")

    def _start_munge(self):
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        words = [find("munged"), "--foreground", "--force", f"--socket={self.folder}/munge.sock", f"--key-file={key}",
                 f"--pid-file={self.folder}/munged.pid", f"--seed-file={self.folder}/munge.seed", "--num-threads=1"]
        self._spawn("munged", words)
        self._wait((self.folder / "munge.sock").exists, "munged")

    def _write_conf(self):
        host = socket.gethostname().split(".")[0]
        # The first job's id determines the rendezvous port: another cluster on this machine must not have the same.
        # Time limits are for a machine that is busy with other tests; credentials expire soon, since a requeued job
        # waits for that.
        lines = f"""ClusterName=composer
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={self.folder}/munge.sock,cred_expire=10
CredType=cred/munge
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool/%n
SlurmctldPort={harness.free_port()}
SlurmctldPidFile={self.folder}/ctld.pid
SlurmdPidFile={self.folder}/slurmd-%n.pid
SlurmctldLogFile={self.folder}/log/ctld.log
SlurmdLogFile={self.folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
JobRequeue=1
KillWait=30
MessageTimeout=60
TCPTimeout=30
SlurmdTimeout=300
FirstJobId={random.randrange(1, 60_000_000)}
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0
SlurmdParameters=config_overrides
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
        for n in range(self.nodes):
            lines += f"NodeName=n{n} NodeHostname={host} NodeAddr=127.0.0.1 Port={harness.free_port()} CPUs=4 RealMemory=4000 State=UNKNOWN\n"
        (self.folder / "slurm.conf").write_text(lines)


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
