// checkpoint_speed FOLDER TENSORS BYTES_A_TENSOR [REPEATS]: saves a state of TENSORS float tensors below FOLDER
// (created if needed, and emptied of its checkpoints before and after), verifies it, and loads it into existing
// tensors. Prints one JSON object: for each of `save`, `raw`, `verify` and `load` a list with one {"wall_s", "cpu_s"}
// per repeat. CPU seconds are those of the process, including the kernel's share. `raw` is the time of the disk alone:
// the same bytes from the same memory into one file, and as many bytes as the manifest has into another, by writev,
// with both files and their folder synced. It alternates with `save` in going first. Save is synced to the disk; verify
// and load read from the page cache. Every load is compared bit for bit with what was saved. The Python checkpoint
// benchmarks run this beside its peers.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <torch/types.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <iostream>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/save/saver.h"
#include "storage/local_store.h"

namespace composer {
namespace {

using nlohmann::json;

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

int64_t PeakMemoryBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Runs `work` and appends its times to result[phase].
template <typename Work>
absl::Status Timed(json& result, const char* phase, Work work) {
  const double cpu = CpuSeconds();
  const auto start = std::chrono::steady_clock::now();
  const absl::Status status = work();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  result[phase].push_back({{"wall_s", wall.count()}, {"cpu_s", CpuSeconds() - cpu}});
  return status;
}

StateDict MakeState(int64_t tensors, int64_t bytes_each) {
  StateDict state;
  const int64_t values = bytes_each / 4;
  for (int64_t i = 0; i < tensors; ++i) {
    state.tensors.emplace_back(absl::StrCat("model/layers.", i / 12, ".block.", i % 12, ".weight"),
                               torch::rand({values}));
  }
  state.small = {{"timestamp", "{\"batch\":1}"}};
  return state;
}

void WriteSynced(const std::string& path, absl::Span<iovec> pieces) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  PCHECK(fd >= 0) << path;
  while (!pieces.empty()) {
    ssize_t left = writev(fd, pieces.data(), static_cast<int>(std::min<size_t>(pieces.size(), IOV_MAX)));
    PCHECK(left >= 0) << path;
    for (; !pieces.empty() && static_cast<size_t>(left) >= pieces[0].iov_len; pieces.remove_prefix(1))
      left -= static_cast<ssize_t>(pieces[0].iov_len);
    if (left > 0)
      pieces[0] = {static_cast<char*>(pieces[0].iov_base) + left, pieces[0].iov_len - static_cast<size_t>(left)};
  }
  PCHECK(fsync(fd) == 0 && close(fd) == 0) << path;
}

absl::Status WriteRaw(const std::string& folder, const StateDict& state, int64_t manifest_bytes) {
  std::vector<iovec> pieces;
  for (const auto& [name, tensor] : state.tensors) pieces.push_back({tensor.data_ptr(), tensor.nbytes()});
  std::string text(static_cast<size_t>(manifest_bytes), 'x');
  iovec manifest{text.data(), text.size()};
  WriteSynced(folder + "/raw", absl::MakeSpan(pieces));
  WriteSynced(folder + "/raw.manifest", absl::MakeSpan(&manifest, 1));
  const int fd = open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  PCHECK(fd >= 0 && fsync(fd) == 0 && close(fd) == 0) << folder;
  return absl::OkStatus();
}

absl::Status CheckEqual(const StateDict& a, const StateDict& b) {
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    if (!torch::equal(a.tensors[i].second, b.tensors[i].second))
      return absl::DataLossError(absl::StrCat("loaded other values of ", a.tensors[i].first));
  }
  return absl::OkStatus();
}

absl::StatusOr<json> Measure(LocalStore& store, int64_t tensors, int64_t bytes_each, int64_t repeats) {
  torch::manual_seed(7);
  const StateDict state = MakeState(tensors, bytes_each);
  json result = {{"tensors", tensors}, {"bytes", tensors * (bytes_each / 4) * 4}, {"threads", at::get_num_threads()}};
  Saver saver(store, RankExchange(), {.run_name = "speed", .overwrite = true});
  int64_t manifest_bytes = tensors * 84;  // of the previous save
  for (int64_t repeat = 0; repeat < repeats; ++repeat) {
    const CheckpointName step{0, repeat + 1};
    const std::string name = step.ToString();
    const auto save = [&] { return saver.Save(state, step, 1).status(); };
    const auto raw = [&] { return WriteRaw(store.root(), state, manifest_bytes); };
    if (repeat % 2 == 1) RETURN_IF_ERROR(Timed(result, "raw", raw));
    RETURN_IF_ERROR(Timed(result, "save", save));
    if (repeat % 2 == 0) RETURN_IF_ERROR(Timed(result, "raw", raw));
    for (const char* file : {"/raw", "/raw.manifest"}) unlink((store.root() + file).c_str());
    RETURN_IF_ERROR(Timed(result, "verify", [&] {
      const VerifyResult verdict = VerifyCheckpoint(store, name);
      return verdict.problems.empty() ? absl::OkStatus() : verdict.problems[0];
    }));
    StateDict target;
    for (const auto& [key, tensor] : state.tensors) target.tensors.emplace_back(key, torch::zeros_like(tensor));
    RETURN_IF_ERROR(Timed(result, "load", [&] { return LoadCheckpoint(store, name, &target); }));
    RETURN_IF_ERROR(CheckEqual(state, target));
    ASSIGN_OR_RETURN(manifest_bytes, store.Size(ManifestKey(name)));
    RETURN_IF_ERROR(store.DeleteTree(name));
  }
  result["manifest_bytes"] = manifest_bytes;
  result["peak_memory_bytes"] = PeakMemoryBytes();
  return result;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  int64_t tensors = 0, bytes_each = 0, repeats = 3;
  if (argc < 4 || argc > 5 || !absl::SimpleAtoi(argv[2], &tensors) || !absl::SimpleAtoi(argv[3], &bytes_each) ||
      (argc == 5 && !absl::SimpleAtoi(argv[4], &repeats)) || tensors < 1 || bytes_each < 0 || repeats < 1) {
    std::cerr << "usage: checkpoint_speed FOLDER TENSORS BYTES_A_TENSOR [REPEATS]\n";
    return 64;
  }
  at::set_num_threads(1);
  composer::LocalStore store(argv[1]);
  const auto result = composer::Measure(store, tensors, bytes_each, repeats);
  if (!result.ok()) {
    std::cerr << "checkpoint_speed: " << result.status() << "\n";
    return 70;
  }
  std::cout << result->dump() << "\n";
  return 0;
}
