// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/chunk_reader.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "checkpoint/format/checkpoint_name.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr int kReaders = 4;

absl::Status Guarded(size_t i, std::string& buffer, absl::FunctionRef<absl::Status(size_t, std::string&)> work) try {
  return work(i, buffer);
} catch (const std::bad_alloc&) {
  return absl::ResourceExhaustedError("out of host memory");
} catch (const std::exception& error) {  // torch's, such as a device error
  const absl::string_view message = error.what();
  return absl::InternalError(message.substr(0, message.find('\n')));
}

}  // namespace

std::string DataFileKey(const std::string& checkpoint, const Manifest& manifest, size_t file) {
  return absl::StrCat(AttemptKey(checkpoint, manifest.attempt), "/", manifest.files[file].name);
}

absl::Status ReadRun(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                     absl::Span<const ChunkRead> run, absl::Span<char> into) {
  if (into.empty()) return absl::OkStatus();
  return store.Read(DataFileKey(checkpoint, manifest, static_cast<size_t>(run.front().file)), run.front().begin, into);
}

absl::Status CheckChunk(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest,
                        const ChunkRead& chunk, absl::string_view bytes) {
  if (Xxh3(bytes) == chunk.xxh3) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(store.Location(DataFileKey(checkpoint, manifest, static_cast<size_t>(chunk.file))),
                   ": checksum mismatch of tensor ", manifest.tensors[chunk.tensor].name));
}

absl::Status ForEachRun(size_t count, int threads, absl::FunctionRef<absl::Status(size_t, std::string&)> work) {
  std::atomic<size_t> next = 0;
  std::atomic<bool> failed = false;
  std::mutex mutex;
  size_t worst = count;
  absl::Status result;
  const auto take_turns = [&] {
    std::string buffer;
    for (size_t i = next++; i < count && !failed; i = next++) {
      const absl::Status status = Guarded(i, buffer, work);
      if (status.ok()) continue;
      failed = true;
      const std::lock_guard<std::mutex> lock(mutex);
      if (i < worst) {
        worst = i;
        result = status;
      }
    }
  };
  std::vector<std::thread> others;
  const int useful = std::min(threads, static_cast<int>(std::min<size_t>(count, kReaders)));
  try {
    for (int i = 1; i < useful; ++i) others.emplace_back(take_turns);
  } catch (const std::system_error&) {  // if no more threads are available, fewer do the work
  }
  take_turns();
  for (std::thread& other : others) other.join();
  return result;
}

int ReaderThreads(int64_t bytes) { return bytes < (int64_t{16} << 20) ? 1 : kReaders; }

}  // namespace composer
