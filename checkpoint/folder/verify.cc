// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/verify.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/folder/chunk_reader.h"
#include "checkpoint/folder/load_plan.h"
#include "checkpoint/format/safetensors.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;
constexpr int64_t kRunBytes = int64_t{8} << 20;
constexpr size_t kManyFiles = 8;  // fewer are checked before threads would start
constexpr int kManyFileReaders = 4;

using TensorBox = std::pair<const TensorEntry*, const Box*>;

// Returns the boxes by file, each in order of position.
std::vector<std::vector<TensorBox>> BoxesByFile(const Manifest& manifest) {
  std::vector<std::vector<TensorBox>> by_file(manifest.files.size());
  for (const TensorEntry& tensor : manifest.tensors) {
    for (const Box& box : tensor.boxes) by_file[static_cast<size_t>(box.file)].push_back({&tensor, &box});
  }
  for (std::vector<TensorBox>& boxes : by_file) {
    std::sort(boxes.begin(), boxes.end(), [](const TensorBox& a, const TensorBox& b) {
      return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
    });
  }
  return by_file;
}

// Returns the end of the run of neighbours that starts at boxes[first] and is read at once: at least one box.
size_t RunEnd(const std::vector<TensorBox>& boxes, size_t first) {
  size_t end = first + 1;
  while (end < boxes.size() && boxes[end].second->begin == boxes[end - 1].second->end &&
         boxes[end].second->end - boxes[first].second->begin <= kRunBytes) {
    ++end;
  }
  return end;
}

absl::Status ReadFileBoxes(ObjectStore& store, const std::string& key, const std::vector<TensorBox>& boxes,
                           BoxVisitor visit) {
  std::string buffer;
  for (size_t first = 0; first < boxes.size();) {
    const size_t end = RunEnd(boxes, first);
    const int64_t begin = boxes[first].second->begin;
    buffer.resize(static_cast<size_t>(boxes[end - 1].second->end - begin));
    const absl::Status read = store.Read(key, begin, absl::MakeSpan(buffer));
    for (; first < end; ++first) {
      const auto& [tensor, box] = boxes[first];
      const absl::string_view bytes = absl::string_view(buffer).substr(static_cast<size_t>(box->begin - begin),
                                                                       static_cast<size_t>(box->end - box->begin));
      absl::Status check = read;
      if (read.ok() && ChunkChecksums(bytes) != box->xxh3) {
        check = absl::DataLossError(absl::StrCat(store.Location(key), ": checksum mismatch of tensor ", tensor->name));
      }
      RETURN_IF_ERROR(visit(*tensor, *box, check.ok() ? bytes : "", check));
    }
  }
  return absl::OkStatus();
}

// Checks that the header's entries are exactly the manifest's boxes of this file. Both are in file order, and only
// empty ones share a place.
absl::Status CheckSameEntries(std::vector<SafetensorsEntry> found, const std::vector<TensorBox>& boxes) {
  const auto differ = [] { return absl::DataLossError("its tensors are not those of the manifest"); };
  if (found.size() != boxes.size()) return differ();
  std::vector<SafetensorsEntry> expected;
  expected.reserve(boxes.size());
  for (const auto& [tensor, box] : boxes)
    expected.push_back({BoxName(*tensor, *box), tensor->dtype, box->shape, box->begin, box->end});
  const auto by_place = [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  };
  std::sort(expected.begin(), expected.end(), by_place);
  std::sort(found.begin(), found.end(), by_place);
  return found == expected ? absl::OkStatus() : differ();
}

// Checks all of a file except the tensors' bytes.
absl::Status CheckFileFrame(ObjectStore& store, const std::string& key, const FileEntry& file,
                            const std::vector<TensorBox>& boxes) {
  ASSIGN_OR_RETURN(const int64_t size, store.Size(key));
  if (size != file.bytes) {
    return absl::DataLossError(
        absl::StrCat(size < file.bytes ? "truncated at " : "grown to ", size, " of ", file.bytes, " bytes"));
  }
  std::string header(static_cast<size_t>(std::min<int64_t>(8, size)), '\0');
  RETURN_IF_ERROR(store.Read(key, 0, absl::MakeSpan(header)));
  ASSIGN_OR_RETURN(const int64_t header_bytes, SafetensorsHeaderBytes(header, size));
  header.resize(static_cast<size_t>(header_bytes));
  RETURN_IF_ERROR(store.Read(key, 0, absl::MakeSpan(header)));
  if (Xxh3(header) != file.header_xxh3) return absl::DataLossError("checksum mismatch of its header");
  ASSIGN_OR_RETURN(const auto entries, ParseSafetensors(header, size));
  return CheckSameEntries(entries, boxes);
}

struct FileFrame {
  absl::Status status;
  // True if its data is not worth reading: missing, unreadable, or of another length. One problem is enough.
  bool unreadable = false;
};

// Checks the share's files. A frame is three small requests, so many of them wait for a remote store at once.
absl::StatusOr<std::vector<FileFrame>> CheckFrames(ObjectStore& store, const std::string& checkpoint,
                                                   const Manifest& manifest,
                                                   const std::vector<std::vector<TensorBox>>& by_file,
                                                   VerifyShare share) {
  std::vector<FileFrame> frames(by_file.size());
  const auto check = [&](size_t i, std::string&) {
    if (!share.Has(i)) return absl::OkStatus();
    const std::string key = DataFileKey(checkpoint, manifest, i);
    const absl::Status status = CheckFileFrame(store, key, manifest.files[i], by_file[i]);
    if (status.ok()) return absl::OkStatus();
    const absl::StatusOr<int64_t> size = store.Size(key);
    frames[i] = {Annotate(status, store.Location(key)),
                 status.code() != absl::StatusCode::kDataLoss || !size.ok() || *size != manifest.files[i].bytes};
    return absl::OkStatus();
  };
  const absl::Status ran = ForEachRun(frames.size(), frames.size() < kManyFiles ? 1 : kManyFileReaders, check);
  RETURN_IF_ERROR(ran);
  return frames;
}

bool IsOfTheStore(const absl::Status& problem) {
  return absl::IsUnavailable(problem) || absl::IsDeadlineExceeded(problem) || absl::IsPermissionDenied(problem);
}

VerifyResult Verdict(Manifest manifest, std::vector<absl::Status> problems) {
  const auto silent = std::find_if(problems.begin(), problems.end(), IsOfTheStore);
  if (silent != problems.end()) return {{}, {}, *silent};
  return {std::move(manifest), std::move(problems), absl::OkStatus()};
}

}  // namespace

absl::StatusOr<std::string> ReadManifestText(ObjectStore& store, const std::string& checkpoint) {
  return GetObject(store, ManifestKey(checkpoint), kMaxManifestBytes);
}

absl::StatusOr<Manifest> ParseManifestOf(ObjectStore& store, const std::string& checkpoint, absl::string_view text) {
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  absl::Status status = manifest.ok() ? CheckComplete(*manifest) : manifest.status();
  const auto name = CheckpointName::Parse(checkpoint);
  if (status.ok() && name && *name != manifest->step) {
    status = absl::DataLossError(absl::StrCat("it is the manifest of ", manifest->step.ToString()));
  }
  if (!status.ok()) return Annotate(status, store.Location(ManifestKey(checkpoint)));
  return manifest;
}

absl::StatusOr<Manifest> ReadManifest(ObjectStore& store, const std::string& checkpoint) {
  ASSIGN_OR_RETURN(const std::string text, ReadManifestText(store, checkpoint));
  return ParseManifestOf(store, checkpoint, text);
}

absl::Status ReadBoxes(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest, BoxVisitor visit) {
  const auto by_file = BoxesByFile(manifest);
  for (size_t i = 0; i < by_file.size(); ++i) {
    RETURN_IF_ERROR(ReadFileBoxes(store, DataFileKey(checkpoint, manifest, i), by_file[i], visit));
  }
  return absl::OkStatus();
}

VerifyResult VerifyCheckpoint(ObjectStore& store, const std::string& checkpoint, VerifyShare share,
                              VerifyDepth depth) try {
  absl::StatusOr<Manifest> read = ReadManifest(store, checkpoint);
  if (!read.ok()) return Verdict({}, {read.status()});
  const Manifest manifest = *std::move(read);
  const auto by_file = BoxesByFile(manifest);
  const absl::StatusOr<std::vector<FileFrame>> checked = CheckFrames(store, checkpoint, manifest, by_file, share);
  if (!checked.ok()) return {{}, {}, checked.status()};
  const std::vector<FileFrame>& frames = *checked;
  std::vector<absl::Status> problems;
  for (const FileFrame& frame : frames) {
    if (!frame.status.ok()) problems.push_back(frame.status);
  }
  if (depth == VerifyDepth::kFrame) return Verdict(manifest, std::move(problems));
  const LoadPlan plan = PlanVerify(manifest);
  const std::vector<ChunkRun> runs = RunsOf(plan);
  std::mutex mutex;
  std::map<size_t, absl::Status> found;  // by chunk, so that problems have one order, however many threads there are
  const auto verify_run = [&](size_t i, std::string& buffer) {
    const absl::Span<const ChunkRead> chunks = ChunksOf(plan, runs[i]);
    const auto file = static_cast<size_t>(chunks.front().file);
    if (!share.Has(i) || frames[file].unreadable) return absl::OkStatus();
    const int64_t begin = chunks.front().begin;
    buffer.resize(static_cast<size_t>(chunks.back().end - begin));
    const absl::Status status = ReadRun(store, checkpoint, manifest, chunks, absl::MakeSpan(buffer));
    for (const ChunkRead& chunk : chunks) {
      const absl::string_view bytes(buffer.data() + (chunk.begin - begin),
                                    static_cast<size_t>(chunk.end - chunk.begin));
      const absl::Status check = status.ok() ? CheckChunk(store, checkpoint, manifest, chunk, bytes) : status;
      if (check.ok()) continue;
      const std::lock_guard<std::mutex> lock(mutex);
      found.emplace(static_cast<size_t>(&chunk - plan.chunks.data()), check);
    }
    return absl::OkStatus();
  };
  const absl::Status ran = ForEachRun(runs.size(), ReaderThreads(manifest.TensorBytesTotal()), verify_run);
  if (!ran.ok()) return {{}, {}, ran};
  const ChunkRead* last = nullptr;
  for (const auto& [index, problem] : found) {  // one problem per tensor and file
    const ChunkRead& chunk = plan.chunks[index];
    if (last == nullptr || last->tensor != chunk.tensor || last->file != chunk.file) problems.push_back(problem);
    last = &chunk;
  }
  return Verdict(manifest, std::move(problems));
} catch (const std::bad_alloc&) {
  return {{}, {}, absl::ResourceExhaustedError("out of host memory")};
}

}  // namespace composer
