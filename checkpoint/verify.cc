// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/verify.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/safetensors.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr int64_t kMaxManifestBytes = int64_t{1} << 30;
constexpr int64_t kRunBytes = int64_t{8} << 20;

using TensorBox = std::pair<const TensorEntry*, const Box*>;

std::string FileKey(const std::string& checkpoint, const Manifest& manifest, size_t file) {
  return absl::StrCat(AttemptKey(checkpoint, manifest.attempt), "/", manifest.files[file].name);
}

// By file, each in order of position.
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

// The end of the run of neighbours that starts at boxes[first] and is read at once: at least one box.
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
      if (read.ok() && Xxh3(bytes) != box->xxh3) {
        check = absl::DataLossError(absl::StrCat(store.Location(key), ": checksum mismatch of tensor ", tensor->name));
      }
      RETURN_IF_ERROR(visit(*tensor, *box, check.ok() ? bytes : "", check));
    }
  }
  return absl::OkStatus();
}

// The header's entries must be the manifest's boxes of this file: nothing more, nothing less.
absl::Status CheckSameEntries(const std::vector<SafetensorsEntry>& entries, const std::vector<TensorBox>& boxes) {
  std::vector<SafetensorsEntry> expected;
  for (const auto& [tensor, box] : boxes)
    expected.push_back({tensor->name, tensor->dtype, box->shape, box->begin, box->end});
  std::vector<SafetensorsEntry> found = entries;
  const auto by_name = [](const SafetensorsEntry& a, const SafetensorsEntry& b) { return a.name < b.name; };
  std::sort(expected.begin(), expected.end(), by_name);
  std::sort(found.begin(), found.end(), by_name);
  return found == expected ? absl::OkStatus() : absl::DataLossError("its tensors are not those of the manifest");
}

// All of a file but the tensors' bytes.
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

}  // namespace

absl::StatusOr<Manifest> ReadManifest(ObjectStore& store, const std::string& checkpoint) {
  const std::string key = ManifestKey(checkpoint);
  ASSIGN_OR_RETURN(const std::string text, GetObject(store, key, kMaxManifestBytes));
  absl::StatusOr<Manifest> manifest = ParseManifest(text);
  absl::Status status = manifest.ok() ? CheckComplete(*manifest) : manifest.status();
  const auto name = CheckpointName::Parse(checkpoint);
  if (status.ok() && name && *name != manifest->step) {
    status = absl::DataLossError(absl::StrCat("it is the manifest of ", manifest->step.ToString()));
  }
  if (!status.ok()) return Annotate(status, store.Location(key));
  return manifest;
}

absl::Status ReadBoxes(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest, BoxVisitor visit) {
  const auto by_file = BoxesByFile(manifest);
  for (size_t i = 0; i < by_file.size(); ++i) {
    RETURN_IF_ERROR(ReadFileBoxes(store, FileKey(checkpoint, manifest, i), by_file[i], visit));
  }
  return absl::OkStatus();
}

VerifyResult VerifyCheckpoint(ObjectStore& store, const std::string& checkpoint) {
  absl::StatusOr<Manifest> manifest = ReadManifest(store, checkpoint);
  if (!manifest.ok()) return {{}, {manifest.status()}};
  VerifyResult verdict{*std::move(manifest), {}};
  const auto by_file = BoxesByFile(verdict.manifest);
  for (size_t i = 0; i < by_file.size(); ++i) {
    const std::string key = FileKey(checkpoint, verdict.manifest, i);
    const absl::Status frame = CheckFileFrame(store, key, verdict.manifest.files[i], by_file[i]);
    if (!frame.ok()) {
      verdict.problems.push_back(Annotate(frame, store.Location(key)));
      if (frame.code() != absl::StatusCode::kDataLoss) continue;  // not there, or not readable: one problem is enough
      if (!store.Size(key).ok() || *store.Size(key) != verdict.manifest.files[i].bytes) continue;
    }
    ReadFileBoxes(store, key, by_file[i],
                  [&](const TensorEntry&, const Box&, absl::string_view, const absl::Status& check) {
                    if (!check.ok()) verdict.problems.push_back(check);
                    return absl::OkStatus();
                  })
        .IgnoreError();
  }
  return verdict;
}

}  // namespace composer
