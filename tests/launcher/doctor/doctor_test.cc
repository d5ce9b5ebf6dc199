// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <functional>

#include "base/file.h"
#include "base/nvml.h"
#include "launcher/doctor/doctor_checks.h"
#include "launcher/doctor/env_report.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;

// Returns a node without problems.
DoctorFacts Good() {
  DoctorFacts f;
  f.host = "node0";
  f.kernel = "6.1.0";
  f.cpus = 8;
  f.memory_bytes = 64 * kGiB;
  f.memory_available = 60 * kGiB;
  f.shm_bytes = 32 * kGiB;
  f.open_files_soft = f.open_files_hard = 1 << 20;
  f.worker_path = "/opt/composer_worker";
  f.interfaces = {{"lo", "127.0.0.1", true}, {"eth0", "10.0.0.1", false}};
  f.host_addresses = {"10.0.0.1"};
  f.outside_source = "10.0.0.1";
  f.gpu_files = 2;
  f.nvml = {"", "550.54", {{"H100", 80 * kGiB, 0, 40, 0, 0}, {"H100", 80 * kGiB, 0, 40, 0, 0}}};
  f.nccl = "2.28.9";
  f.clock_synchronised = true;
  f.clock_error = absl::Milliseconds(5);
  f.run_folder = {"/runs", "", 500 * kGiB, -1, 800, "ext4"};
  f.temp_folder = {"/tmp", "", 50 * kGiB, -1, 800, "tmpfs"};
  return f;
}

TEST(DoctorTest, AGoodNodeHasNothingToMend) {
  for (const Finding& f : Diagnose(Good())) {
    EXPECT_EQ(f.health, Health::kOk) << f.text;
    EXPECT_EQ(f.advice, "") << f.text;
  }
}

TEST(DoctorTest, EachIllnessIsFoundWithAdvice) {
  struct Case {
    std::function<void(DoctorFacts&)> make;
    Health health;
    std::string text;
    std::string advice;
  };
  const std::vector<Case> cases = {
      {[](auto& f) { f.cpu_quota = 2; }, Health::kWarn, "2.0 by the cgroup's quota", "OMP_NUM_THREADS to 2"},
      {[](auto& f) { f.memory_available = kGiB; }, Health::kWarn, "1.0 GiB of 64.0 GiB memory are free", "end other"},
      {[](auto& f) { f.memory_limit = kGiB; }, Health::kWarn, "the cgroup allows 1.0 GiB", "a rank needs"},
      {[](auto& f) { f.open_files_soft = 1024; }, Health::kWarn, "1024 open files", "ulimit -n 4096"},
      {[](auto& f) { f.open_files_soft = f.open_files_hard = 1024; }, Health::kWarn, "1024", "limits.conf"},
      {[](auto& f) { f.shm_bytes = 64 << 20; }, Health::kWarn, "/dev/shm has 64 MiB only", "--shm-size"},
      {[](auto& f) { f.has_pidfd = false; }, Health::kFail, "refuses pidfd_open", "Linux 5.3"},
      {[](auto& f) { f.worker_path = ""; }, Health::kWarn, "composer_worker is missing", "install both"},
      {[](auto& f) { f.nvml = {"cannot load libnvidia-ml.so.1", "", {}}; }, Health::kFail,
       "2 GPU devices, but cannot load", "--gpus all"},
      {[](auto& f) { f.nvml.gpus[1].ecc_errors = 3; }, Health::kFail, "GPU 1 (H100) has 3 uncorrected",
       "out of service"},
      {[](auto& f) { f.nvml.gpus[0].throttle_reasons = kThrottlePowerBrake; }, Health::kWarn, "slowed down", "power"},
      {[](auto& f) { f.nvml.gpus[1].row_failed = true; }, Health::kFail, "could not be replaced", "out of service"},
      {[](auto& f) { f.nvml.gpus[1].row_pending = true; }, Health::kWarn, "at its next reset", "nvidia-smi -r"},
      {[](auto& f) { f.nvml.xids = {{79, "0000:3b:00"}, {79, "0000:3b:00"}}; }, Health::kFail,
       "the GPU at 0000:3b:00 reported Xid 79 (the GPU has fallen off the bus) 2 times", "drain the node"},
      {[](auto& f) { f.nvml.xids = {{13, "0000:3b:00"}}; }, Health::kWarn, "reported Xid 13", "that job's log"},
      {[](auto& f) { f.nvml.gpus[0].temperature = 90; }, Health::kWarn, "is warm: 90 C", "cooling"},
      {[](auto& f) { f.nvml.gpus[0].memory_used = 40 * kGiB; }, Health::kWarn, "40.0 GiB of 80.0 GiB in use",
       "nvidia-smi"},
      {[](auto& f) { f.visible_devices = ""; }, Health::kWarn, "CUDA_VISIBLE_DEVICES is \"\"", "unset it"},
      {[](auto& f) { f.nccl = ""; }, Health::kWarn, "no libnccl.so.2", "nvidia-nccl"},
      {[](auto& f) { f.infiniband = {"mlx5_0 port 1: ACTIVE"}, f.locked_bytes = 65536; }, Health::kFail, "only 64 KiB",
       "ulimit -l unlimited"},
      {[](auto& f) { f.infiniband = {"mlx5_0 port 1: DOWN"}; }, Health::kWarn, "mlx5_0 port 1: DOWN", "ibstat"},
      {[](auto& f) { f.outside_source = ""; }, Health::kWarn, "no default route", "--local-addr"},
      {[](auto& f) { f.interface_variables["NCCL_SOCKET_IFNAME"] = "ib"; }, Health::kFail,
       "NCCL_SOCKET_IFNAME is \"ib\", but there is no such interface", "eth0 (10.0.0.1)"},
      {[](auto& f) { f.interface_variables["GLOO_SOCKET_IFNAME"] = "eth"; }, Health::kFail, "GLOO_SOCKET_IFNAME",
       "unset"},
      {[](auto& f) { f.host_addresses = {"127.0.1.1"}; }, Health::kWarn, "the name node0 is 127.0.1.1 here",
       "/etc/hosts"},
      {[](auto& f) { f.host_addresses = {}; }, Health::kWarn, "the name node0 has no address", "/etc/hosts"},
      {[](auto& f) { f.endpoint = Reachability{{"a", 1}, "", {{"10.0.0.9", "10.0.0.1", "eth0", ECONNREFUSED}}}; },
       Health::kFail, "a:1: connection refused at 10.0.0.9:1", "start node 0's launcher first"},
      {[](auto& f) { f.clock_synchronised = false; }, Health::kWarn, "not synchronised", "chrony"},
      {[](auto& f) { f.clock_error = absl::Seconds(3); }, Health::kWarn, "within 3s", "chrony"},
      {[](auto& f) { f.run_folder.error = "permission denied"; }, Health::kFail, "permission denied", "writable"},
      {[](auto& f) { f.run_folder.free_bytes = 1 << 20; }, Health::kFail, "0.0 GiB free", "it is full"},
      {[](auto& f) { f.run_folder.free_files = 3; }, Health::kFail, "run folder", "df -i"},
      {[](auto& f) { f.run_folder.free_bytes = kGiB; }, Health::kWarn, "1.0 GiB free", "few checkpoints fit"},
      {[](auto& f) { f.run_folder.write_mb_per_s = 5; }, Health::kWarn, "writes 5 MB/s", "slow"},
      {[](auto& f) { f.temp_folder.path = "/" + std::string(100, 'x'); }, Health::kFail, "too long for a Unix socket",
       "shorter path"},
  };
  for (const Case& c : cases) {
    DoctorFacts facts = Good();
    c.make(facts);
    const std::vector<Finding> findings = Diagnose(facts);
    EXPECT_EQ(WorstOf(findings), c.health) << c.text;
    int ill = 0;
    for (const Finding& f : findings) {
      if (f.health == Health::kOk) continue;
      ++ill;
      EXPECT_THAT(f.text, HasSubstr(c.text));
      EXPECT_THAT(f.advice, HasSubstr(c.advice));
    }
    EXPECT_EQ(ill, 1) << c.text;
  }
}

TEST(DoctorTest, WhatIsNoIllness) {
  for (const auto& make : std::vector<std::function<void(DoctorFacts&)>>{
           [](auto& f) { f.gpu_files = 0, f.nvml = {"no driver", "", {}}, f.nccl = ""; },
           [](auto& f) { f.interface_variables = {{"NCCL_SOCKET_IFNAME", "^docker"}, {"GLOO_SOCKET_IFNAME", "eth0"}}; },
           [](auto& f) { f.interface_variables = {{"NCCL_SOCKET_IFNAME", "=eth0"}}; },
           [](auto& f) { f.endpoint = Reachability{{"a", 1}, "", {{"10.0.0.9", "10.0.0.1", "eth0", 0}}}; },
           [](auto& f) { f.batch_system = "Slurm job 7", f.visible_devices = "0,1"; }}) {
    DoctorFacts facts = Good();
    make(facts);
    EXPECT_EQ(WorstOf(Diagnose(facts)), Health::kOk);
  }
}

TEST(DriverFactsTest, ReadsEachGpuThatAnswers) {
  const DriverFacts facts = ReadDriverFacts(LOST_GPU_NVML);
  EXPECT_THAT(facts.error, HasSubstr("GPU 2 does not answer"));
  EXPECT_EQ(facts.driver, "550.54");
  ASSERT_EQ(facts.gpus.size(), 2u);
  EXPECT_EQ(facts.gpus[0].name, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(facts.gpus[0].memory_bytes, 80'000'000'000);
  EXPECT_EQ(facts.gpus[1].memory_used, 75'000'000'000);
  EXPECT_EQ(facts.gpus[0].temperature, 50);
  EXPECT_EQ(facts.gpus[0].ecc_errors, 0);
  EXPECT_EQ(facts.gpus[1].ecc_errors, 5);
  EXPECT_EQ(facts.gpus[1].throttle_reasons, 0u) << "an old driver does not tell";
  EXPECT_FALSE(facts.gpus[1].row_failed);
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("kmsg"), "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off").ok());
  const DriverFacts all = ReadDriverFacts(FAKE_NVML, dir.Path("kmsg"));
  ASSERT_EQ(all.xids.size(), 1u);
  EXPECT_EQ(all.xids[0].number, 79);
  EXPECT_TRUE(all.gpus[1].row_failed);
  EXPECT_EQ(all.error, "");
  ASSERT_EQ(all.gpus.size(), 2u);
  EXPECT_EQ(all.gpus[1].throttle_reasons, kThrottleHardwareThermal);
  EXPECT_THAT(ReadDriverFacts("libno-such-driver.so").error, HasSubstr("the NVIDIA driver is not installed"));
  EXPECT_THAT(ReadDriverFacts("libc.so.6").error, HasSubstr("NVML does not start"));
}

TEST(DoctorFactsTest, OfThisMachine) {
  TempDir dir;
  const Endpoint nobody = {"127.0.0.1", 1};
  const DoctorFacts facts =
      GatherDoctorFacts(Environment(std::map<std::string, std::string>{{"TMPDIR", dir.path()}, {"SLURM_JOB_ID", "7"}}),
                        dir.Path("a/b"), &nobody);
  EXPECT_GT(facts.cpus, 0);
  EXPECT_GT(facts.memory_available, 0);
  EXPECT_GT(facts.open_files_soft, 0);
  EXPECT_TRUE(facts.has_pidfd);
  EXPECT_EQ(facts.run_folder.path, dir.path());  // the folder that exists
  EXPECT_EQ(facts.run_folder.error, "");
  EXPECT_GT(facts.run_folder.free_bytes, 0);
  EXPECT_GT(facts.run_folder.write_mb_per_s, 0);
  EXPECT_EQ(facts.batch_system, "Slurm job 7");
  ASSERT_TRUE(facts.endpoint.has_value());
  EXPECT_EQ(facts.endpoint->attempts.at(0).error, ECONNREFUSED);
  EXPECT_EQ(ListDir(dir.path())->size(), 0u) << "the file that was written is gone";
}

TEST(EnvironmentReport, SaysWhatMattersAndNoSecrets) {
  Environment environment({{"COMPOSER_TOKEN", "hush"},
                           {"AWS_SECRET_ACCESS_KEY", "hush"},
                           {"AWS_ENDPOINT_URL", "http://me:hush@store:9000/x"},
                           {"NCCL_DEBUG", "INFO\nx"},
                           {"HOME", "/home/me"}});
  const std::string report =
      EnvironmentReport(Good(), {"LibTorch 2.11.0\nmore\n", "Debian 12", "A processor"}, environment);
  for (const char* line : {"system:        Debian 12, Linux 6.1.0\n", "worker:        LibTorch 2.11.0\n",
                           "processor:     A processor, 8 CPUs allowed\n", "memory:        64.0 GiB, 60.0 free\n",
                           "gpus:          2 x H100, 80 GiB\n", "driver:        550.54\n", "nccl:          2.28.9\n",
                           "COMPOSER_TOKEN=(set)\n", "AWS_SECRET_ACCESS_KEY=(set)\n",
                           "AWS_ENDPOINT_URL=http://store:9000/x\n", "NCCL_DEBUG=INFO\\nx\n"})
    EXPECT_THAT(report, HasSubstr(line));
  for (const char* secret : {"hush", "node0", "/home/me"}) EXPECT_THAT(report, testing::Not(HasSubstr(secret)));
}

}  // namespace
}  // namespace composer
