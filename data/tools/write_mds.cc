// SPDX-License-Identifier: Apache-2.0
#include "data/tools/write_mds.h"

#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "storage/checksum.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr char kJournal[] = "composer-write.json";
constexpr int64_t kChunk = 4096;  // records that are encoded together

// What the bytes of the shards depend on.
std::string Fingerprint(const RecordSource& records, const MdsWriterOptions& options) {
  std::string text = absl::StrCat(options.compression, "\n", absl::StrJoin(options.hashes, ","), "\n",
                                  options.size_limit.value_or(0), "\n", records.size());
  for (const auto& [name, encoding] : options.columns) absl::StrAppend(&text, "\n", name, "\n", encoding);
  for (const std::string& path : records.paths()) {
    struct stat facts = {};
    stat(path.c_str(), &facts);  // of a file that is mapped; a failure shows as size 0
    absl::StrAppend(&text, "\n", AbsolutePath(path), "\n", facts.st_size, "\n", facts.st_mtim.tv_sec, ".",
                    facts.st_mtim.tv_nsec);
  }
  return ChecksumText(Xxh3(text));
}

// Returns the shards of an unfinished write; none if there is no journal.
absl::StatusOr<MdsIndex> ReadJournal(ObjectStore& store, const std::string& fingerprint) {
  const auto text = GetObject(store, kJournal, kMaxIndexBytes);
  if (absl::IsNotFound(text.status())) return MdsIndex();
  RETURN_IF_ERROR(text.status());
  const Json journal = ParseJson(*text);
  const auto field = [&](const char* name) {
    const bool there = journal.is_object() && journal.contains(name) && journal[name].is_string();
    return there ? journal[name].get<std::string>() : "";
  };
  if (field("fingerprint") != fingerprint) {
    return absl::FailedPreconditionError(
        absl::StrCat(store.Location(kJournal),
                     " is of an unfinished write of other files or with other options; repeat that one, or give "
                     "--restart to begin anew"));
  }
  ASSIGN_OR_RETURN(MdsIndex index, ParseMdsIndex(field("index")));
  // Shards that are gone are written again, with those behind them.
  for (size_t i = 0; i < index.shards.size(); ++i) {
    const ShardFile& stored = index.shards[i].stored();
    const auto size = store.Size(stored.name);
    if (size.ok() && *size == stored.bytes) continue;
    index.shards.resize(i);
    break;
  }
  return index;
}

// Whether a write was killed when only its journal was left to delete.
absl::StatusOr<bool> IsFinished(ObjectStore& store, const MdsIndex& begun) {
  const auto index = GetObject(store, "index.json", kMaxIndexBytes);
  if (absl::IsNotFound(index.status())) return false;
  RETURN_IF_ERROR(index.status());
  return *index == MdsIndexText(begun);
}

absl::Status WriteJournal(ObjectStore& store, const std::string& fingerprint, const MdsIndex& index) {
  return store.Put(kJournal, {Json{{"fingerprint", fingerprint}, {"index", MdsIndexText(index)}}.dump()});
}

using Values = absl::StatusOr<std::vector<std::string>>;

// Encodes records [begin, end) on several threads.
std::vector<Values> EncodeChunk(const RecordSource& records, const std::vector<MdsColumn>& columns, int64_t begin,
                                int64_t end, int threads) {
  std::vector<Values> encoded(static_cast<size_t>(end - begin));
  std::atomic<int64_t> next = begin;
  const auto work = [&] {
    constexpr int64_t kAtOnce = 64;
    for (int64_t from; (from = next.fetch_add(kAtOnce)) < end;) {
      for (int64_t i = from; i < std::min(end, from + kAtOnce); ++i)
        encoded[static_cast<size_t>(i - begin)] = records.Values(i, columns);
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& other : others) other.join();
  return encoded;
}

}  // namespace

absl::StatusOr<int64_t> WriteMds(const RecordSource& records, std::shared_ptr<ObjectStore> store,
                                 WriteMdsOptions options) {
  if (records.size() == 0) return absl::InvalidArgumentError("there is no sample");
  if (options.writer.columns.empty()) {
    ASSIGN_OR_RETURN(options.writer.columns, records.Columns());
  }
  const std::string fingerprint = Fingerprint(records, options.writer);
  if (!options.restart) {
    ASSIGN_OR_RETURN(options.writer.begun, ReadJournal(*store, fingerprint));
  }
  WriteProgress progress{.of_samples = records.size()};
  for (const MdsShardInfo& shard : options.writer.begun.shards) progress.samples += shard.samples;
  if (progress.samples > records.size()) return absl::DataLossError("the journal has more samples than the files");
  if (progress.samples == records.size()) {
    ASSIGN_OR_RETURN(const bool finished, IsFinished(*store, options.writer.begun));
    if (finished) {
      RETURN_IF_ERROR(store->Delete(kJournal));
      return records.size();
    }
  }
  options.writer.threads = options.threads;
  options.writer.on_shard = [&](const MdsIndex& so_far) { return WriteJournal(*store, fingerprint, so_far); };
  ASSIGN_OR_RETURN(const std::unique_ptr<MdsWriter> writer, MdsWriter::Create(store, options.writer));
  while (progress.samples < records.size()) {
    const int64_t end = std::min(records.size(), progress.samples + kChunk);
    for (const Values& values : EncodeChunk(records, writer->columns(), progress.samples, end, options.threads)) {
      RETURN_IF_ERROR(values.status());
      const std::vector<absl::string_view> views(values->begin(), values->end());
      RETURN_IF_ERROR(writer->Write(views));
      for (const absl::string_view view : views) progress.bytes += static_cast<int64_t>(view.size());
    }
    progress.samples = end;
    if (options.progress) options.progress(progress);
  }
  RETURN_IF_ERROR(writer->Finish());
  RETURN_IF_ERROR(store->Delete(kJournal));
  return records.size();
}

}  // namespace composer
