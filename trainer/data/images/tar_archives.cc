// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/images/tar_archives.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "data/cache/whole_object.h"
#include "data/codec/tar.h"
#include "data/text/record_files.h"
#include "storage/checksum.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMostIndexBytes = int64_t{1} << 30;
constexpr size_t kFetchesAtOnce = 8;

// What is kept of an archive that was fetched once.
struct KnownArchive {
  uint64_t checksum = 0;
  std::vector<TarSample> samples;
};

std::string TextOf(const KnownArchive& known) {
  Json samples = Json::array();
  for (const TarSample& sample : known.samples) {
    Json parts = Json::array();
    for (const TarSample::Part& part : sample.parts) parts.push_back({part.ending, part.begin, part.size});
    samples.push_back({sample.key, std::move(parts)});
  }
  return Json{{"xxh3", ChecksumText(known.checksum)}, {"samples", std::move(samples)}}.dump(
      -1, ' ', false, Json::error_handler_t::replace);
}

// Returns none for what TextOf did not write for an archive of this size; it is then fetched again.
std::optional<KnownArchive> ParseKnown(absl::string_view text, uint64_t bytes) {
  const Json json = ParseJson(text);
  if (!json.is_object() || !json.contains("xxh3") || !json["xxh3"].is_string() || !json.contains("samples"))
    return std::nullopt;
  const std::optional<uint64_t> checksum = ParseChecksum(json["xxh3"].get<std::string>());
  if (!checksum || !json["samples"].is_array()) return std::nullopt;
  KnownArchive known{*checksum, {}};
  for (const Json& item : json["samples"]) {
    if (!item.is_array() || item.size() != 2 || !item[0].is_string() || !item[1].is_array()) return std::nullopt;
    TarSample& sample = known.samples.emplace_back(TarSample{item[0].get<std::string>(), {}});
    for (const Json& part : item[1]) {
      const bool fits = part.is_array() && part.size() == 3 && part[0].is_string() && part[1].is_number_unsigned() &&
                        part[2].is_number_unsigned();
      if (!fits) return std::nullopt;
      sample.parts.push_back({part[0].get<std::string>(), part[1].get<uint64_t>(), part[2].get<uint64_t>()});
      if (sample.parts.back().begin > bytes || sample.parts.back().size > bytes - sample.parts.back().begin)
        return std::nullopt;
    }
  }
  return known;
}

absl::StatusOr<TarArchive> OpenHere(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  absl::StatusOr<std::vector<TarSample>> samples = SamplesOfTar(file->bytes());
  if (!samples.ok()) return Annotate(samples.status(), path);
  const auto open = [file]() -> absl::StatusOr<OwnedBytes> { return OwnedBytes{file, file->bytes()}; };
  return TarArchive{path, static_cast<int64_t>(file->bytes().size()), *std::move(samples), open};
}

absl::StatusOr<TarArchive> OpenFetched(const RemoteFile& tar, const FetchOptions& options,
                                       const std::shared_ptr<ShardCache>& cache) {
  TarArchive archive{.place = tar.store->Location(tar.key)};
  ASSIGN_OR_RETURN(archive.bytes, tar.store->Size(tar.key));
  const std::string name = WholeObject(tar.store, tar.key, archive.bytes, nullptr).name;
  const std::string index = JoinPath(options.local, absl::StrCat(name, ".samples"));
  const absl::StatusOr<std::string> text = ReadFile(index, kMostIndexBytes);
  std::optional<KnownArchive> known;
  if (text.ok()) known = ParseKnown(*text, static_cast<uint64_t>(archive.bytes));
  if (!known) {
    known.emplace();
    const auto check = [](absl::string_view content) { return SamplesOfTar(content).status(); };
    const auto file = cache->Get(WholeObject(tar.store, tar.key, archive.bytes, check));
    if (!file.ok()) return Annotate(file.status(), archive.place);
    known->checksum = Xxh3((*file)->bytes());
    ASSIGN_OR_RETURN(known->samples, SamplesOfTar((*file)->bytes()));
    const std::string written = TextOf(*known);
    RETURN_IF_ERROR(AtomicWriteFile(index, written));
    known = ParseKnown(written, static_cast<uint64_t>(archive.bytes));  // as later starts will have it
    if (!known) return absl::InternalError(absl::StrCat(index, " cannot be read back"));
  }
  const auto check = [checksum = known->checksum, index](absl::string_view content) {
    if (Xxh3(content) == checksum) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("it is damaged, or another than at its first use; then delete ", index));
  };
  archive.samples = std::move(known->samples);
  archive.open = [cache, item = WholeObject(tar.store, tar.key, archive.bytes, check)]() -> absl::StatusOr<OwnedBytes> {
    ASSIGN_OR_RETURN(const std::shared_ptr<const CachedFile> file, cache->Get(item));
    return OwnedBytes{file, file->bytes()};
  };
  return archive;
}

absl::StatusOr<std::vector<TarArchive>> OpenRemote(const std::vector<std::string>& paths, const FetchOptions& options,
                                                   const StoreOpener& open_store) {
  ASSIGN_OR_RETURN(const std::shared_ptr<ShardCache> cache, OpenFetchCache(options));
  ASSIGN_OR_RETURN(const std::vector<RemoteFile> tars, FindRemoteFiles(paths, {".tar"}, open_store));
  std::vector<absl::StatusOr<TarArchive>> opened(tars.size(), absl::UnknownError("not opened"));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < tars.size();) opened[i] = OpenFetched(tars[i], options, cache);
  };
  // With a bounded cache one at a time, so that they do not wait for each other's room.
  std::vector<std::thread> others;
  const size_t threads = options.cache_limit ? 1 : std::min(kFetchesAtOnce, tars.size());
  for (size_t i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  std::vector<TarArchive> archives;
  for (absl::StatusOr<TarArchive>& archive : opened) {
    RETURN_IF_ERROR(archive.status());
    archives.push_back(*std::move(archive));
  }
  return archives;
}

}  // namespace

absl::StatusOr<std::vector<TarSample>> SamplesOfTar(absl::string_view archive) {
  ASSIGN_OR_RETURN(const std::vector<TarEntry> entries, ReadTar(archive));
  std::vector<TarSample> samples;
  for (const TarEntry& entry : entries) {
    const size_t slash = entry.name.rfind('/'), begin = slash == std::string::npos ? 0 : slash + 1;
    const size_t dot = entry.name.find('.', begin);
    if (dot == std::string::npos || dot == begin) continue;
    const std::string key = entry.name.substr(0, dot), ending = entry.name.substr(dot + 1);
    if (samples.empty() || samples.back().key != key) samples.push_back({key, {}});
    for (const TarSample::Part& part : samples.back().parts) {
      if (part.ending == ending) return absl::DataLossError(absl::StrCat("sample ", key, " has two files .", ending));
    }
    const auto offset = static_cast<uint64_t>(entry.bytes.data() - archive.data());
    samples.back().parts.push_back({ending, offset, entry.bytes.size()});
  }
  return samples;
}

absl::StatusOr<std::vector<TarArchive>> OpenTarArchives(const std::vector<std::string>& paths,
                                                        const FetchOptions& options, const StoreOpener& open_store) {
  if (!options.local.empty()) return OpenRemote(paths, options, open_store);
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandPaths(paths));
  std::vector<TarArchive> archives;
  for (const std::string& file : files) {
    ASSIGN_OR_RETURN(archives.emplace_back(), OpenHere(file));
  }
  return archives;
}

}  // namespace composer
