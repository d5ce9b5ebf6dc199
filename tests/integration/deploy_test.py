"""Checks the files under deploy/ with the programs that would read them: Kubernetes schemas, systemd, a Dockerfile
linter, bash.

The validators come from PyPI (tools/validators.txt, ./dev setup). Tests whose validator is missing are skipped with its
name."""
import copy
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import harness

DEPLOY = harness.ROOT / "deploy"
VALIDATORS = pathlib.Path(os.environ.get("COMPOSER_VALIDATORS", harness.ROOT / ".deps/validators"))
KUBERNETES = "1.37"


def run(*words, **options):
    return subprocess.run([str(w) for w in words], capture_output=True, text=True, timeout=60, **options)


@unittest.skipUnless((VALIDATORS / "kubernetes_validate").is_dir(),
                     f"kubernetes-validate is not in {VALIDATORS}: ./dev setup")
class KubernetesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        sys.path.insert(0, str(VALIDATORS))
        import jsonschema
        import kubernetes_validate
        import yaml
        cls.jsonschema, cls.validator, cls.yaml = jsonschema, kubernetes_validate, yaml
        cls.jobset_schema = json.loads((pathlib.Path(__file__).parent / "jobset_schema.json").read_text())

    def documents(self, name):
        return list(self.yaml.safe_load_all((DEPLOY / "k8s" / name).read_text()))

    def check(self, document):
        if document["kind"] != "JobSet":
            return self.validator.validate(document, KUBERNETES, strict=True)
        self.jsonschema.validate(document, self.jobset_schema)
        for job in document["spec"]["replicatedJobs"]:
            template = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": job["name"]}, **job["template"]}
            self.validator.validate(template, KUBERNETES, strict=True)

    def refused(self, document, path, value):
        changed = copy.deepcopy(document)
        place = changed
        for key in path[:-1]:
            place = place[key]
        place[path[-1]] = value
        with self.assertRaises(Exception, msg=f"{path} = {value}"):
            self.check(changed)

    def test_manifests(self):
        kinds = []
        for name in ("storage.yaml", "job.yaml", "jobset.yaml", "rendezvous.yaml"):
            for document in self.documents(name):
                self.check(document)
                kinds.append(document["kind"])
        self.assertEqual(kinds, ["PersistentVolumeClaim"] * 2 + ["Service", "Job", "JobSet", "Service", "Deployment"])

    def test_the_validator_sees_mistakes(self):
        job = self.documents("job.yaml")[1]
        self.refused(job, ["spec", "paralellism"], 2)
        self.refused(job, ["spec", "completions"], "two")
        self.refused(job, ["spec", "podFailurePolicy", "rules", 0, "onExitCodes", "values"], ["64"])
        jobset = self.documents("jobset.yaml")[0]
        self.refused(jobset, ["spec", "failurePolicy", "rules", 0, "action"], "FailEverything")
        self.refused(jobset, ["spec", "networks"], {})
        self.refused(jobset, ["spec", "replicatedJobs", 0, "template", "spec", "template", "spec", "containers", 0,
                              "arg"], [])

    def test_names_and_numbers_agree(self):
        service, job = self.documents("job.yaml")
        jobset = self.documents("jobset.yaml")[0]
        inner = jobset["spec"]["replicatedJobs"][0]
        for spec, host in ((job["spec"], f"{job['metadata']['name']}-0.{service['metadata']['name']}"),
                           (inner["template"]["spec"],
                            f"{jobset['metadata']['name']}-{inner['name']}-0-0.{jobset['spec']['network']['subdomain']}")):
            container = spec["template"]["spec"]["containers"][0]
            self.assertIn(f"--nnodes={spec['completions']}", container["args"])
            self.assertEqual(spec["completions"], spec["parallelism"])
            self.assertIn(f"--master_addr={host}", container["args"])
            self.assertIn(f"--master_port={container['ports'][0]['containerPort']}", container["args"])
            self.assertEqual([r["onExitCodes"]["containerName"] for r in spec["podFailurePolicy"]["rules"][:2]],
                             [container["name"]] * 2)
        self.assertEqual(job["spec"]["template"]["spec"]["subdomain"], service["metadata"]["name"])
        self.assertTrue(service["spec"]["publishNotReadyAddresses"])

    def pods(self):
        """Returns {file: pod template's spec} of the three that run our image."""
        return {"job.yaml": self.documents("job.yaml")[1]["spec"]["template"]["spec"],
                "jobset.yaml": self.documents("jobset.yaml")[0]["spec"][
                    "replicatedJobs"][0]["template"]["spec"]["template"]["spec"],
                "rendezvous.yaml": self.documents("rendezvous.yaml")[1]["spec"]["template"]["spec"]}

    def test_a_job_would_start_as_it_is(self):
        claims = {claim["metadata"]["name"] for claim in self.documents("storage.yaml")}
        customised = self.documents("kustomization.yaml")[0]
        self.assertEqual(customised["resources"], ["storage.yaml", "job.yaml"])
        image = f"{customised['images'][0]['name']}:{customised['images'][0]['newTag']}"
        self.assertIn(f"docker build -f deploy/docker/Dockerfile -t {image} .",
                      (harness.ROOT / "docs/kubernetes.md").read_text())
        for name, pod in self.pods().items():
            container = pod["containers"][0]
            self.assertEqual(container["image"], image, name)
            for volume in pod.get("volumes", []):
                self.assertTrue("persistentVolumeClaim" not in volume
                                or volume["persistentVolumeClaim"]["claimName"] in claims, volume)
            mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
            self.assertEqual(mounted, {volume["name"] for volume in pod.get("volumes", [])}, name)
            secure = {**pod.get("securityContext", {}), **container["securityContext"]}
            self.assertTrue(secure["runAsNonRoot"] and secure["runAsUser"] > 0, name)
            if "serve" not in container["args"]:
                self.assertEqual(secure["fsGroup"], secure["runAsUser"], "who may write to the volumes")
                cpus = container["resources"]["requests"]["cpu"]
                self.assertEqual(container["resources"]["limits"]["cpu"], cpus)
                self.assertIn(f"--nproc-per-node={cpus}", container["args"])
                self.assertIn({"name": "OMP_NUM_THREADS", "value": "1"}, container["env"])

    def test_the_gpu_example_is_a_job_with_gpus(self):
        """Its patch (RFC 6902, as kustomize applies it) changes the job of deploy/k8s into another valid one."""
        overlay = self.yaml.safe_load((DEPLOY / "k8s-gpu/kustomization.yaml").read_text())
        self.assertEqual([(DEPLOY / "k8s-gpu" / base).resolve() for base in overlay["resources"]], [DEPLOY / "k8s"])
        [patch] = overlay["patches"]
        job = self.documents("job.yaml")[1]
        self.assertEqual(patch["target"], {"kind": job["kind"], "name": job["metadata"]["name"]})
        for step in self.yaml.safe_load(patch["patch"]):
            *path, last = [part.replace("~1", "/") for part in step["path"][1:].split("/")]
            place = job
            for part in path:
                place = place[int(part)] if isinstance(place, list) else place[part]
            if last == "-":
                place.append(step["value"])
            elif isinstance(place, list):
                self.assertIn("--nproc-per-node", place[int(last)])
                place[int(last)] = step["value"]
            else:
                place[last] = step["value"]
        self.check(job)
        container = job["spec"]["template"]["spec"]["containers"][0]
        self.assertEqual(container["resources"]["limits"]["nvidia.com/gpu"], "8")
        self.assertLess(container["args"].index("--nproc-per-node=8"), container["args"].index("/jobs/train.yaml"))
        self.assertEqual(container["args"][-1], "device=gpu")

    def test_the_arguments_are_flags_of_composer(self):
        for name, index in (("job.yaml", 1), ("jobset.yaml", 0)):
            spec = self.documents(name)[index]["spec"]
            spec = spec if "template" in spec else spec["replicatedJobs"][0]["template"]["spec"]
            flags = [a.replace("$(JOB_COMPLETION_INDEX)", "1").replace("$(POD_IP)", "127.0.0.1")
                     for a in spec["template"]["spec"]["containers"][0]["args"] if a.startswith("--")]
            done = run(harness.BIN / "composer", *flags, "--dry-run", "-c", "true",
                       env={"PATH": "/usr/bin:/bin", "COMPOSER_TOKEN": "x" * 64})
            self.assertEqual(done.returncode, 0, done.stderr)


class DevTest(unittest.TestCase):
    def test_setup_elsewhere_says_so_before_it_touches_anything(self):
        with tempfile.TemporaryDirectory() as folder:
            release = pathlib.Path(folder) / "os-release"
            for text, named in (("ID=ubuntu\nVERSION_ID=\"24.04\"\n", "ubuntu 24.04"),
                                ("ID=debian\nVERSION_ID=\"13\"\n", "debian 13"), ("", "unknown")):
                release.write_text(text)
                done = run(harness.ROOT / "dev", "setup",
                           env={"PATH": "/usr/bin:/bin", "COMPOSER_OS_RELEASE": str(release)})
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(f"this is {named} on ", done.stderr)
                self.assertIn("COMPOSER_ANY_SYSTEM=1", done.stderr)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd-analyze is not installed (Debian: systemd)")
class SystemdTest(unittest.TestCase):
    def test_unit(self):
        with tempfile.TemporaryDirectory() as folder:
            unit = pathlib.Path(folder) / "composer@.service"
            text = (DEPLOY / "systemd/composer@.service").read_text()
            unit.write_text(text.replace("/usr/bin/composer", "/bin/true"))
            self.assertEqual(run("systemd-analyze", "verify", "--man=no", unit).stderr, "")
            unit.write_text(text.replace("KillMode=mixed", "KillMode=most"))
            self.assertIn("kill mode", run("systemd-analyze", "verify", "--man=no", unit).stderr)


class DockerfileTest(unittest.TestCase):
    FILE = DEPLOY / "docker/Dockerfile"
    OF_PACKAGES = DEPLOY / "docker/Dockerfile.deb"  # tools/package/try.sh runs its steps

    @unittest.skipUnless((VALIDATORS / "bin/hadolint").exists(), f"hadolint is not in {VALIDATORS}: ./dev setup")
    def test_lint(self):
        for file in (self.FILE, self.OF_PACKAGES):
            done = run(VALIDATORS / "bin/hadolint", file)
            self.assertEqual((done.returncode, done.stdout), (0, ""))
        done = run(VALIDATORS / "bin/hadolint", "-", input=self.FILE.read_text().replace("WORKDIR /src", "WORKDIR src"))
        self.assertNotEqual(done.returncode, 0)

    def test_the_image_of_packages_has_what_is_opened(self):
        """The packages depend on what the programs are linked with, and only recommend what they open."""
        sys.path.insert(0, str(harness.ROOT / "tools/package"))
        import stage
        text = self.OF_PACKAGES.read_text()
        known = dict(re.findall(r"(?m)^\s*(\S+) \(.*x86-64.*\) => (\S+)$", run("ldconfig", "-p").stdout))
        for library in stage.OPENED:
            if library in known:
                package = stage.package_of(pathlib.Path(known[library]).resolve())[0]
                self.assertTrue(package in text or package in ("libbz2-1.0", "libzstd1"), f"{package}, which dpkg needs")
        source = self.FILE.read_text()
        for line in ("STOPSIGNAL SIGTERM", 'ENTRYPOINT ["composer"]', 'CMD ["--help"]'):
            self.assertIn(line, text)
            self.assertIn(line, source)

    def test_the_image_has_every_library(self):
        stage = self.FILE.read_text().split("FROM debian:12-slim")[1]
        listed = set(re.search(r"--no-install-recommends (.*?)&& rm", stage.replace("\\\n", " "),
                               re.S).group(1).split())
        self.assertIn("libcurl4", listed)  # loaded on demand, see net/curl_http.cc
        for binary in ("composer", "composer_worker"):
            if not (harness.BIN / binary).exists():
                continue
            for line in run("ldd", harness.BIN / binary).stdout.splitlines():
                path = re.search(r"=> (/\S+)", line)
                if path is None or ".deps" in path.group(1):
                    continue
                name = pathlib.Path(path.group(1)).name
                needed = run("objdump", "-p", harness.BIN / binary).stdout
                if f"NEEDED               {name}\n" not in needed:
                    continue
                real = str(pathlib.Path(path.group(1)).resolve())
                owner = (run("dpkg", "-S", real).stdout
                         or run("dpkg", "-S", real.removeprefix("/usr")).stdout).split(":")[0]
                self.assertIn(owner, listed | {"libc6", "libstdc++6", "libgcc-s1", "libgrpc29"}, name)


class SbatchTest(unittest.TestCase):
    def test_scripts(self):
        scripts = sorted((DEPLOY / "slurm").glob("*.sbatch"))
        self.assertEqual(len(scripts), 5)
        for script in scripts:
            self.assertEqual(run("bash", "-n", script).returncode, 0)
            self.assertTrue(os.access(script, os.X_OK))
            if shutil.which("shellcheck"):
                done = run("shellcheck", script)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
