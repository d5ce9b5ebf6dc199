// An ObjectStore whose n-th call fails. It simulates object storage (a refused request), which a PowerCutDisk cannot.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/object_store.h"

namespace composer {

class FaultStore : public ObjectStore {
 public:
  // `inner` must outlive it.
  explicit FaultStore(ObjectStore& inner) : inner_(inner) {}

  // Makes calls number `first` (from 0, counted from now) to `first + count - 1` fail with `status` and do nothing.
  void FailCalls(int first, int count, absl::Status status) {
    status_ = std::move(status);
    last_ = first + count;
    first_ = first;
    calls_ = 0;
  }
  // Counts only calls about keys that contain this.
  void OnlyFor(std::string part) { part_ = std::move(part); }
  int calls() const { return calls_; }

  absl::Status Put(const std::string& key, Pieces pieces) override {
    RETURN_IF_ERROR(Next("put", key));
    return inner_.Put(key, pieces);
  }
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override {
    RETURN_IF_ERROR(Next("create", key));
    return inner_.PutIfAbsent(key, pieces);
  }
  absl::StatusOr<int64_t> Size(const std::string& key) override {
    RETURN_IF_ERROR(Next("size of", key));
    return inner_.Size(key);
  }
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override {
    RETURN_IF_ERROR(Next("read", key));
    return inner_.Read(key, offset, into);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override {
    RETURN_IF_ERROR(Next("list", folder));
    return inner_.List(folder);
  }
  absl::Status Delete(const std::string& key) override {
    RETURN_IF_ERROR(Next("delete", key));
    return inner_.Delete(key);
  }
  absl::Status DeleteTree(const std::string& folder) override {
    RETURN_IF_ERROR(Next("delete", folder));
    return inner_.DeleteTree(folder);
  }
  std::string Location(const std::string& key) const override { return inner_.Location(key); }

 private:
  absl::Status Next(absl::string_view what, const std::string& key) {
    if (key.find(part_) == std::string::npos) return absl::OkStatus();
    const int call = calls_++;
    if (call < first_ || call >= last_) return absl::OkStatus();
    return Annotate(status_, absl::StrCat("cannot ", what, " ", Location(key)));
  }

  ObjectStore& inner_;
  std::string part_;
  absl::Status status_;
  int first_ = 0;
  int last_ = 0;
  std::atomic<int> calls_{0};
};

}  // namespace composer
