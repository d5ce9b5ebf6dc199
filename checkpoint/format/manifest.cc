// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/manifest.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/format/json_text.h"
#include "checkpoint/format/safetensors.h"
#include "storage/checksum.h"

namespace composer {
namespace {

using nlohmann::json;

constexpr absl::string_view kFormat = "composer-checkpoint";
constexpr int64_t kVersion = 1;
constexpr size_t kMaxName = 1024;
constexpr size_t kMaxBoxes = 16384;  // per tensor

std::string Numbers(const std::vector<int64_t>& numbers) { return absl::StrCat("[", absl::StrJoin(numbers, ","), "]"); }

void AppendChecksums(const std::vector<uint64_t>& checksums, std::string* text) {
  const bool list = checksums.size() != 1;
  if (list) *text += '[';
  for (size_t i = 0; i < checksums.size(); ++i)
    absl::StrAppend(text, i == 0 ? "\"" : ",\"", ChecksumText(checksums[i]), "\"");
  if (list) *text += ']';
}

// A whole tensor is [file, begin, checksum]; a box of it also has its offset and shape.
void AppendBox(const TensorEntry& tensor, const Box& box, std::string* text) {
  absl::StrAppend(text, "[", box.file, ",", box.begin, ",");
  AppendChecksums(box.xxh3, text);
  if (!tensor.IsWhole(box)) absl::StrAppend(text, ",", Numbers(box.offset), ",", Numbers(box.shape));
  *text += ']';
}

absl::Status Bad(absl::string_view what) { return absl::DataLossError(what); }

// Takes the members of the manifest one by one. Anything unexpected is a problem, and the first one is kept.
class Reader {
 public:
  explicit Reader(json object) : object_(std::move(object)) {}

  const json& Take(const char* name, json::value_t type) {
    const auto found = object_.find(name);
    if (found == object_.end() || found->type() != type) {
      Problem(absl::StrCat("member \"", name, "\" is missing or of the wrong type"));
      static const json* const kNothing = new json;
      return *kNothing;
    }
    ++taken_;
    return *found;
  }
  std::string Text(const char* name) {
    const json& value = Take(name, json::value_t::string);
    return value.is_string() ? value.get<std::string>() : "";
  }
  int64_t Number(const char* name) { return Count(Take(name, json::value_t::number_unsigned), name); }
  int64_t Count(const json& value, absl::string_view what) {
    if (value.is_number_unsigned() && value.get<uint64_t>() <= INT64_MAX)
      return static_cast<int64_t>(value.get<uint64_t>());
    Problem(absl::StrCat("bad number in ", what));
    return 0;
  }
  std::vector<int64_t> Counts(const json& value, absl::string_view what) {
    std::vector<int64_t> counts;
    if (!value.is_array()) Problem(absl::StrCat("no list of numbers in ", what));
    for (const json& number : value) counts.push_back(Count(number, what));
    return counts;
  }
  uint64_t Checksum(const json& value, absl::string_view what) {
    const auto checksum = value.is_string() ? ParseChecksum(value.get_ref<const std::string&>()) : std::nullopt;
    if (!checksum) Problem(absl::StrCat("bad checksum in ", what));
    return checksum.value_or(0);
  }
  // Reads one checksum, or a list of more than one.
  std::vector<uint64_t> Checksums(const json& value, absl::string_view what) {
    if (!value.is_array()) return {Checksum(value, what)};
    std::vector<uint64_t> checksums;
    checksums.reserve(value.size());
    for (const json& checksum : value) checksums.push_back(Checksum(checksum, what));
    if (checksums.size() < 2) Problem(absl::StrCat("bad checksums in ", what));
    return checksums;
  }
  // Returns false and records a problem when `value` is not a list of `least` to `most` values.
  bool IsList(const json& value, size_t least, size_t most, absl::string_view what) {
    if (value.is_array() && value.size() >= least && value.size() <= most) return true;
    Problem(absl::StrCat("bad entry in ", what));
    return false;
  }
  void Problem(std::string what) {
    if (status_.ok()) status_ = Bad(what);
  }
  absl::Status status() const { return status_; }
  bool took_all() const { return taken_ == object_.size(); }

 private:
  json object_;
  size_t taken_ = 0;
  absl::Status status_;
};

FileEntry ReadFileEntry(const json& value, Reader& reader) {
  FileEntry file;
  if (!reader.IsList(value, 3, 3, "files") || !value[0].is_string() ||
      !IsRankFileName(value[0].get_ref<const std::string&>())) {
    reader.Problem("bad file name");
    return file;
  }
  file.name = value[0].get<std::string>();
  file.bytes = reader.Count(value[1], file.name);
  file.header_xxh3 = reader.Checksum(value[2], file.name);
  return file;
}

Box ReadBox(const json& value, const TensorEntry& tensor, const std::vector<FileEntry>& files, Reader& reader) {
  Box box;
  if (!reader.IsList(value, 3, 5, tensor.name) || value.size() == 4) {
    reader.Problem(absl::StrCat("bad box of ", tensor.name));
    return box;
  }
  const int64_t file = reader.Count(value[0], tensor.name);
  box.begin = reader.Count(value[1], tensor.name);
  box.xxh3 = reader.Checksums(value[2], tensor.name);
  const bool whole = value.size() == 3;
  box.offset = whole ? std::vector<int64_t>(tensor.shape.size(), 0) : reader.Counts(value[3], tensor.name);
  box.shape = whole ? tensor.shape : reader.Counts(value[4], tensor.name);
  if (!whole && box.shape == tensor.shape)
    reader.Problem(absl::StrCat("a box of ", tensor.name, " is the whole of it"));
  if (box.offset.size() != tensor.shape.size() || box.shape.size() != tensor.shape.size()) {
    reader.Problem(absl::StrCat("a box of ", tensor.name, " has other dimensions"));
    return box;
  }
  for (size_t d = 0; d < tensor.shape.size(); ++d) {
    if (box.offset[d] > tensor.shape[d] || box.shape[d] > tensor.shape[d] - box.offset[d]) {
      reader.Problem(absl::StrCat("a box of ", tensor.name, " lies outside it"));
    }
  }
  const auto bytes = TensorBytes(tensor.dtype, box.shape);
  const bool fits = bytes.ok() && !__builtin_add_overflow(box.begin, *bytes, &box.end) &&
                    static_cast<uint64_t>(file) < files.size() && box.end <= files[static_cast<size_t>(file)].bytes;
  if (!fits) reader.Problem(absl::StrCat("a box of ", tensor.name, " lies outside the files"));
  box.file = fits ? static_cast<int>(file) : 0;
  if (fits && static_cast<int64_t>(box.xxh3.size()) != ChunkCount(*bytes)) {
    reader.Problem(
        absl::StrCat("a box of ", tensor.name, " has ", box.xxh3.size(), " checksums, not ", ChunkCount(*bytes)));
  }
  return box;
}

TensorEntry ReadTensor(const json& value, const std::vector<FileEntry>& files, Reader& reader) {
  TensorEntry tensor;
  if (!reader.IsList(value, 4, 3 + kMaxBoxes, "tensors") || !value[0].is_string() || !value[1].is_string()) {
    reader.Problem("bad tensor entry");
    return tensor;
  }
  tensor.name = value[0].get<std::string>();
  tensor.dtype = value[1].get<std::string>();
  tensor.shape = reader.Counts(value[2], tensor.name);
  if (tensor.name.empty() || tensor.name.size() > kMaxName || tensor.shape.size() > 64)
    reader.Problem("bad tensor name or shape");
  if (const auto bytes = TensorBytes(tensor.dtype, tensor.shape); !bytes.ok()) {
    reader.Problem(absl::StrCat(tensor.name, ": ", bytes.status().message()));
  }
  for (size_t i = 3; i < value.size() && reader.status().ok(); ++i) {
    tensor.boxes.push_back(ReadBox(value[i], tensor, files, reader));
  }
  return tensor;
}

absl::StatusOr<Manifest> FromJson(json object) {
  Reader reader(std::move(object));
  Manifest manifest;
  if (reader.Text("format") != kFormat) return Bad("not a composer checkpoint manifest");
  if (const int64_t version = reader.Number("version"); version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("format version ", version, ", this program reads version ", kVersion));
  }
  manifest.run_name = reader.Text("run_name");
  manifest.saved_at = reader.Text("saved_at");
  manifest.step = {reader.Number("epoch"), reader.Number("batch")};
  manifest.samples = reader.Number("samples");
  const int64_t world_size = reader.Number("world_size");
  if (world_size < 1 || world_size > INT32_MAX) reader.Problem("bad world_size");
  manifest.world_size = static_cast<int>(world_size);
  manifest.attempt = reader.Text("attempt");
  if (!IsAttemptName(manifest.attempt)) reader.Problem("bad attempt name");
  for (const json& value : reader.Take("files", json::value_t::array))
    manifest.files.push_back(ReadFileEntry(value, reader));
  for (const json& value : reader.Take("tensors", json::value_t::array)) {
    manifest.tensors.push_back(ReadTensor(value, manifest.files, reader));
    if (!reader.status().ok()) break;
  }
  for (const auto& [key, value] : reader.Take("small", json::value_t::object).items())
    manifest.small[key] = value.dump();
  reader.Take("checksum", json::value_t::string);
  RETURN_IF_ERROR(reader.status());
  if (!reader.took_all()) return Bad("a member that this program does not know");
  return manifest;
}

}  // namespace

std::string ManifestTrailer(absl::string_view body) {
  return absl::StrCat(",\n\"checksum\":\"xxh3:", ChecksumText(Xxh3(body)), "\"}\n");
}

std::vector<uint64_t> ChunkChecksums(absl::string_view bytes) {
  std::vector<uint64_t> checksums;
  const size_t count = static_cast<size_t>(ChunkCount(static_cast<int64_t>(bytes.size())));
  checksums.reserve(count);
  for (size_t i = 0; i < count; ++i) checksums.push_back(Xxh3(bytes.substr(i * kChunkBytes, kChunkBytes)));
  return checksums;
}

std::string BoxName(const TensorEntry& tensor, const Box& box) {
  return tensor.IsWhole(box) ? tensor.name : absl::StrCat(tensor.name, "@", absl::StrJoin(box.offset, ","));
}

int64_t Manifest::TensorBytesTotal() const {
  int64_t total = 0;
  for (const TensorEntry& tensor : tensors) {
    for (const Box& box : tensor.boxes) total += box.end - box.begin;
  }
  return total;
}

absl::StatusOr<std::string> SerializeManifest(const Manifest& manifest) {
  ASSIGN_OR_RETURN(const std::string run_name, QuoteJson(manifest.run_name));
  ASSIGN_OR_RETURN(const std::string saved_at, QuoteJson(manifest.saved_at));
  std::string text =
      absl::StrCat("{\"format\":\"", kFormat, "\",\n\"version\":", kVersion, ",\n\"run_name\":", run_name,
                   ",\n\"saved_at\":", saved_at, ",\n\"epoch\":", manifest.step.epoch);
  absl::StrAppend(&text, ",\n\"batch\":", manifest.step.batch, ",\n\"samples\":", manifest.samples,
                  ",\n\"world_size\":", manifest.world_size, ",\n\"attempt\":\"", manifest.attempt, "\",\n\"files\":[");
  absl::string_view separator = "\n";
  for (const FileEntry& file : manifest.files) {
    absl::StrAppend(&text, separator, "[\"", file.name, "\",", file.bytes, ",\"", ChecksumText(file.header_xxh3),
                    "\"]");
    separator = ",\n";
  }
  text += "],\n\"tensors\":[";
  separator = "\n";
  for (const TensorEntry& tensor : manifest.tensors) {
    ASSIGN_OR_RETURN(const std::string name, QuoteJson(tensor.name));
    absl::StrAppend(&text, separator, "[", name, ",\"", tensor.dtype, "\",", Numbers(tensor.shape));
    for (const Box& box : tensor.boxes) {
      text += ',';
      AppendBox(tensor, box, &text);
    }
    text += "]";
    separator = ",\n";
  }
  text += "],\n\"small\":{";
  separator = "\n";
  for (const auto& [key, value] : manifest.small) {
    ASSIGN_OR_RETURN(const std::string quoted, QuoteJson(key));
    const absl::StatusOr<std::string> canonical = CanonicalJson(value);
    if (!canonical.ok()) return Annotate(canonical.status(), absl::StrCat("small state ", quoted));
    absl::StrAppend(&text, separator, quoted, ":", *canonical);
    separator = ",\n";
  }
  text += "}";
  return text + ManifestTrailer(text);
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view text) {
  static const size_t kTrailerBytes = ManifestTrailer("").size();
  if (text.size() < kTrailerBytes) return Bad(absl::StrCat("truncated: ", text.size(), " bytes"));
  const absl::string_view body = text.substr(0, text.size() - kTrailerBytes);
  const absl::string_view trailer = text.substr(body.size());
  if (trailer != ManifestTrailer(body)) {
    const bool has_trailer = absl::StartsWith(trailer, ",\n\"checksum\":\"xxh3:");
    return Bad(has_trailer ? "checksum mismatch: the text was changed"
                           : "truncated or changed: it does not end with its checksum");
  }
  RETURN_IF_ERROR(CheckJson(text));
  json object = ParseJson(text);
  if (!object.is_object()) return Bad("no JSON object");
  return FromJson(std::move(object));
}

}  // namespace composer
