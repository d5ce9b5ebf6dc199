// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"
#include "data/cache/whole_object.h"
#include "data/tables/table_file.h"
#include "storage/checksum.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kTail = int64_t{64} << 10;  // of a Parquet file, in which its list of groups mostly fits
constexpr int64_t kFooterEnd = 8;             // the list's length, and PAR1
constexpr int64_t kMostIndexBytes = int64_t{1} << 30;

// What is in a file.
struct TableFacts {
  std::vector<ArrowColumn> columns;
  std::vector<ArrowGroup> groups;
};

TableFacts FactsOf(const TableInMemory& table) { return {table.arrow->columns(), table.arrow->groups()}; }

Json JsonOf(const TableFacts& facts) {
  Json columns = Json::array(), groups = Json::array();
  for (const ArrowColumn& column : facts.columns)
    columns.push_back({column.name, static_cast<int>(column.kind), column.number});
  for (const ArrowGroup& group : facts.groups) groups.push_back({group.rows, group.bytes});
  return {{"columns", std::move(columns)}, {"groups", std::move(groups)}};
}

// Throws nlohmann's exceptions for what JsonOf did not write.
TableFacts ParseFacts(const Json& json) {
  TableFacts facts;
  for (const Json& column : json.at("columns")) {
    facts.columns.push_back({column.at(0).get<std::string>(), static_cast<ArrowKind>(column.at(1).get<int>()),
                             column.at(2).get<std::string>()});
  }
  for (const Json& group : json.at("groups"))
    facts.groups.push_back({group.at(0).get<int64_t>(), group.at(1).get<int64_t>()});
  return facts;
}

// A file in a store and what is known of it.
class RemoteTable {
 public:
  RemoteTable(const RemoteFile& file, int64_t bytes, TableFormat format, TableColumns columns,
              const std::string& folder)
      : file_(file),
        place_(file.store->Location(file.key)),
        bytes_(bytes),
        format_(format),
        columns_(std::move(columns)) {
    asked_ = {columns_.names, columns_.if_present};
    index_ = JoinPath(folder, absl::StrCat(WholeObject(file.store, file.key, bytes, nullptr).name, ".table"));
    ReadIndex();
  }

  const std::string& place() const { return place_; }
  int64_t bytes() const { return bytes_; }

  // Returns what is in the file; `self` is this.
  static absl::StatusOr<TableFacts> Facts(const std::shared_ptr<RemoteTable>& self, ShardCache& cache) {
    {
      const absl::MutexLock lock(&self->mutex_);
      if (self->facts_.has_value()) return *self->facts_;
    }
    absl::StatusOr<TableFacts> facts;
    if (self->format_ == TableFormat::kParquet) {
      facts = self->FactsOfFooter(cache);
    } else {
      const absl::StatusOr<TableInMemory> table = Open(self, cache);
      facts = table.ok() ? absl::StatusOr<TableFacts>(FactsOf(*table)) : table.status();
    }
    if (!facts.ok()) return facts;
    const absl::MutexLock lock(&self->mutex_);
    self->facts_ = *facts;
    return facts;
  }

  static absl::StatusOr<TableInMemory> Open(const std::shared_ptr<RemoteTable>& self, ShardCache& cache) {
    const auto check = [self](absl::string_view content) { return self->Check(content); };
    const auto file = cache.Get(WholeObject(self->file_.store, self->file_.key, self->bytes_, check));
    if (!file.ok()) return Annotate(file.status(), self->place_);
    return OpenTableBytes(self->place_, *file, (*file)->bytes(), self->format_, self->columns_);
  }

 private:
  void ReadIndex() ABSL_LOCKS_EXCLUDED(mutex_) {
    const absl::StatusOr<std::string> text = ReadFile(index_, kMostIndexBytes);
    if (!text.ok()) return;
    const absl::MutexLock lock(&mutex_);
    try {
      const Json json = ParseJson(*text);
      const std::optional<uint64_t> checksum = ParseChecksum(json.at("xxh3").get<std::string>());
      if (checksum.has_value() && json.at("asked") == asked_) facts_ = ParseFacts(json.at("facts"));
      checksum_ = checksum;
    } catch (const Json::exception&) {  // it is then made anew
    }
  }

  // The list of groups is at the file's end; what has only that is enough of a file to read the list.
  absl::StatusOr<TableFacts> FactsOfFooter(ShardCache& cache) const {
    const auto whole = [this](absl::string_view tail) {
      return absl::EndsWith(tail, "PAR1") && FooterBytes(tail) <= bytes_
                 ? absl::OkStatus()
                 : absl::DataLossError(absl::StrCat(place_, ": this is no Parquet file, or not a whole one"));
    };
    ASSIGN_OR_RETURN(const auto tail, Get(cache, std::min(kTail, bytes_), whole));
    ASSIGN_OR_RETURN(const auto footer,
                     Get(cache, std::max(std::min(kTail, bytes_), FooterBytes(tail->bytes())), whole));
    const std::string small = absl::StrCat("PAR1", footer->bytes());
    ASSIGN_OR_RETURN(const TableInMemory table, OpenTableBytes(place_, nullptr, small, format_, columns_));
    return FactsOf(table);
  }
  absl::StatusOr<std::shared_ptr<const CachedFile>> Get(
      ShardCache& cache, int64_t last_bytes, std::function<absl::Status(absl::string_view content)> check) const {
    const auto file = cache.Get(EndOfObject(file_.store, file_.key, bytes_, last_bytes, std::move(check)));
    if (!file.ok()) return Annotate(file.status(), place_);
    return file;
  }
  static int64_t FooterBytes(absl::string_view tail) {
    if (tail.size() < static_cast<size_t>(kFooterEnd) + 4) return INT64_MAX;
    return NumberAt(tail, tail.size() - kFooterEnd) + kFooterEnd;
  }

  // Returns kDataLoss for what should be fetched again.
  absl::Status Check(absl::string_view content) {
    if (!checksum().has_value()) ReadIndex();  // another process may have checked it
    if (const std::optional<uint64_t> known = checksum(); known.has_value()) {
      if (Xxh3(content) == *known) return absl::OkStatus();
      return absl::DataLossError(absl::StrCat("it is damaged, or another than at its first use; then delete ", index_));
    }
    const absl::StatusOr<TableInMemory> table = OpenTableBytes(place_, nullptr, content, format_, columns_);
    if (!table.ok()) {
      const bool has_no_column = absl::StrContains(table.status().message(), "column");
      return has_no_column || !absl::IsInvalidArgument(table.status()) ? table.status()
                                                                       : absl::DataLossError(table.status().message());
    }
    const TableFacts facts = FactsOf(*table);
    for (size_t i = 0; i < facts.groups.size(); ++i) {
      std::string error;
      if (table->arrow->Read(i, error) == nullptr)
        return absl::DataLossError(absl::StrCat(place_, ": group ", i, ": ", error));
    }
    const absl::MutexLock lock(&mutex_);
    if (facts_.has_value() && JsonOf(*facts_) != JsonOf(facts))
      return absl::DataLossError(absl::StrCat(place_, ": it has become another file while this job started"));
    checksum_ = Xxh3(content);
    const Json index = {{"xxh3", ChecksumText(*checksum_)}, {"asked", asked_}, {"facts", JsonOf(facts)}};
    return AtomicWriteFile(index_, index.dump(-1, ' ', false, Json::error_handler_t::replace));
  }
  std::optional<uint64_t> checksum() const {
    const absl::MutexLock lock(&mutex_);
    return checksum_;
  }

  const RemoteFile file_;
  const std::string place_;
  const int64_t bytes_;
  const TableFormat format_;
  const TableColumns columns_;
  Json asked_;
  std::string index_;
  mutable absl::Mutex mutex_;
  std::optional<TableFacts> facts_ ABSL_GUARDED_BY(mutex_);
  std::optional<uint64_t> checksum_ ABSL_GUARDED_BY(mutex_);  // of a file that was found good
};

}  // namespace

absl::StatusOr<TableFile> OpenRemoteTable(const RemoteFile& file, TableFormat format, const TableColumns& columns,
                                          const std::string& folder, const std::shared_ptr<ShardCache>& cache) {
  ASSIGN_OR_RETURN(const int64_t bytes, file.store->Size(file.key));
  const auto remote = std::make_shared<RemoteTable>(file, bytes, format, columns, folder);
  ASSIGN_OR_RETURN(TableFacts facts, RemoteTable::Facts(remote, *cache));
  TableFile table{.place = remote->place(), .bytes = bytes, .is_remote = true};
  table.columns = std::move(facts.columns);
  table.groups = std::move(facts.groups);
  table.open = [remote, cache] { return RemoteTable::Open(remote, *cache); };
  return table;
}

}  // namespace composer
