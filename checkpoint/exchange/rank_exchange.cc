// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/exchange/rank_exchange.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr absl::Duration kSlice = absl::Seconds(1);

// The text is "0\n<value>" or "<code>\n<message>".
std::string Encode(const absl::StatusOr<std::string>& value) {
  if (value.ok()) return absl::StrCat("0\n", *value);
  return absl::StrCat(static_cast<int>(value.status().code()), "\n", value.status().message());
}

absl::StatusOr<std::string> Decode(absl::string_view text) {
  const size_t end = text.find('\n');
  int code = 0;
  if (end == absl::string_view::npos || !absl::SimpleAtoi(text.substr(0, end), &code)) {
    return absl::InternalError("a rank's answer in the store is not one of ours");
  }
  if (code == 0) return std::string(text.substr(end + 1));
  return absl::Status(static_cast<absl::StatusCode>(code), text.substr(end + 1));
}

// Converts the store's exceptions to a Status.
absl::Status Guarded(absl::string_view what, const std::function<void()>& call) {
  try {
    call();
    return absl::OkStatus();
  } catch (const std::exception& error) {
    const absl::string_view message = error.what();
    return absl::UnavailableError(absl::StrCat(what, ": ", message.substr(0, message.find('\n'))));
  }
}

}  // namespace

RankExchange::RankExchange(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size, absl::Duration timeout)
    : store_(std::move(store)), rank_(rank), world_size_(world_size), timeout_(timeout) {}

absl::Status RankExchange::Set(const std::string& key, const absl::StatusOr<std::string>& value) {
  return Guarded("cannot tell the other ranks", [&] { store_->set(key, Encode(value)); });
}

RankExchange RankExchange::GivenUpBy(std::shared_ptr<const std::atomic<bool>> flag) && {
  given_up_ = std::move(flag);
  return std::move(*this);
}

// Waits in slices so that it can be given up: the store's own wait cannot be cancelled.
absl::Status RankExchange::Wait(const std::string& key) {
  if (given_up_ == nullptr) {
    store_->wait({key}, absl::ToChronoMilliseconds(timeout_));
    return absl::OkStatus();
  }
  const absl::Time end = absl::Now() + timeout_;
  for (;;) {
    const absl::Duration left = end - absl::Now();
    try {
      store_->wait({key}, absl::ToChronoMilliseconds(std::clamp(left, absl::Milliseconds(1), kSlice)));
      return absl::OkStatus();
    } catch (const std::exception&) {
      if (left <= kSlice) throw;
      store_->check({key});  // throws if the store is what fails
    }
    if (given_up_->load()) return absl::CancelledError("given up: the run ends");
  }
}

absl::StatusOr<std::string> RankExchange::Get(const std::string& key, absl::string_view who) {
  std::string text;
  absl::Status waited;
  RETURN_IF_ERROR(Guarded(absl::StrCat("no answer from ", who), [&] {
    waited = Wait(key);
    if (waited.ok()) text = store_->get_to_str(key);
  }));
  RETURN_IF_ERROR(waited);
  return Decode(text);
}

absl::Status RankExchange::Delete(const std::string& key) {
  return Guarded("cannot delete a key of the store", [&] { store_->deleteKey(key); });
}

absl::StatusOr<std::string> RankExchange::Broadcast(absl::StatusOr<std::string> value) {
  if (world_size_ == 1) return value;
  const std::string key = absl::StrCat("broadcast/", calls_++);
  if (rank_ == 0) {
    RETURN_IF_ERROR(Set(key, value));
    return value;
  }
  absl::StatusOr<std::string> received = Get(key, "rank 0");
  // The last reader cleans up. If that fails, what was agreed on still holds.
  const std::string readers = absl::StrCat(key, "/readers");
  int64_t count = 0;
  Guarded("", [&] { count = store_->add(readers, 1); }).IgnoreError();
  if (count == world_size_ - 1) {
    Delete(key).IgnoreError();
    Delete(readers).IgnoreError();
  }
  return received;
}

absl::StatusOr<std::vector<std::string>> RankExchange::Gather(absl::StatusOr<std::string> value) {
  const int64_t call = calls_++;
  const auto key = [call](int rank) { return absl::StrCat("gather/", call, "/", rank); };
  if (rank_ != 0) {
    RETURN_IF_ERROR(Set(key(rank_), value));
    return std::vector<std::string>{};
  }
  std::vector<std::string> values;
  absl::Status failure;
  int failures = 0;
  for (int rank = 0; rank < world_size_; ++rank) {
    const absl::StatusOr<std::string> answer = rank == 0 ? value : Get(key(rank), absl::StrCat("rank ", rank));
    if (answer.ok()) {
      values.push_back(*answer);
    } else if (++failures == 1) {
      failure = Annotate(answer.status(), absl::StrCat("rank ", rank));
    }
    if (rank != 0) Delete(key(rank)).IgnoreError();
  }
  if (failures == 0) return values;
  if (failures == 1) return failure;
  return absl::Status(failure.code(), absl::StrCat(failure.message(), " (and ", failures - 1, " more ranks)"));
}

absl::Status AgreeOn(RankExchange& exchange, const absl::Status& own) {
  const auto all = exchange.Gather(own.ok() ? absl::StatusOr<std::string>("") : own);
  return exchange.Broadcast(all.ok() ? absl::StatusOr<std::string>("") : all.status()).status();
}

}  // namespace composer
