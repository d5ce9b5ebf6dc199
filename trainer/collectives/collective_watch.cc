// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/collective_watch.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/json.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

using std::chrono::steady_clock;

constexpr auto kLook = std::chrono::milliseconds(50);
constexpr size_t kKeptCalls = 32;   // of each group
constexpr size_t kNamedRanks = 16;  // in a message
constexpr auto kAskLimit = std::chrono::milliseconds(2000);

// How long a rank may be without progress before it says where it is: a part of the time-out, so that it has spoken
// when another rank asks.
steady_clock::duration QuietLimit(CollectiveWatch::Millis timeout) {
  return std::clamp<CollectiveWatch::Millis>(timeout / 4, CollectiveWatch::Millis(100), CollectiveWatch::Millis(10000));
}

std::vector<uint8_t> EncodeCalls(const LastCalls& calls) {
  std::vector<uint8_t> bytes(calls.size() * sizeof(CollectiveCall::Words));
  for (size_t i = 0; i < calls.size(); ++i) {
    const CollectiveCall::Words words = calls[i].Encode();
    std::memcpy(bytes.data() + i * sizeof(words), words.data(), sizeof(words));
  }
  return bytes;
}

LastCalls DecodeCalls(const std::vector<uint8_t>& bytes) {
  LastCalls calls;
  CollectiveCall::Words words;
  for (size_t at = 0; at + sizeof(words) <= bytes.size(); at += sizeof(words)) {
    std::memcpy(words.data(), bytes.data() + at, sizeof(words));
    calls.push_back(CollectiveCall::Decode(words));
  }
  return calls;
}

std::string KeyOf(const std::string& group, int rank) { return absl::StrCat("calls/", group, "/", rank); }

// The call of the same number, or of none.
CollectiveCall CallOfNumber(const LastCalls& calls, int64_t sequence) {
  const auto it =
      std::find_if(calls.begin(), calls.end(), [&](const CollectiveCall& call) { return call.sequence == sequence; });
  return it == calls.end() ? CollectiveCall{} : *it;
}

}  // namespace

std::string ExplainStuck(const CollectiveCall& stuck, int rank, const std::vector<std::optional<LastCalls>>& by_rank) {
  std::vector<std::string> missing, different;
  for (size_t other = 0; other < by_rank.size(); ++other) {
    if (static_cast<int>(other) == rank) continue;
    const std::optional<LastCalls>& calls = by_rank[other];
    if (!calls.has_value()) {
      missing.push_back(absl::StrCat("rank ", other, " has not said where it is, or is gone"));
      continue;
    }
    const CollectiveCall last = calls->empty() ? CollectiveCall{} : calls->back();
    const CollectiveCall same = CallOfNumber(*calls, stuck.sequence);
    if (last.sequence < stuck.sequence) {
      missing.push_back(absl::StrCat("rank ", other, " has not come to it, its last one is ", last.ToString()));
    } else if (same.kind != CollectiveKind::kNone && !(same == stuck)) {
      different.push_back(absl::StrCat("rank ", other, ": ", same.ToString()));
    }
  }
  std::string text;
  if (!different.empty()) {
    text = absl::StrCat("the ranks are not in the same collective, they have gone different ways before it: rank ",
                        rank, ": ", stuck.ToString());
  } else if (missing.empty()) {
    return "all ranks have come to it: a GPU, or the network between them, does not answer";
  }
  std::vector<std::string>& named = different.empty() ? missing : different;
  for (size_t i = 0; i < std::min(named.size(), kNamedRanks); ++i)
    absl::StrAppend(&text, text.empty() ? "" : "; ", named[i]);
  if (named.size() > kNamedRanks) absl::StrAppend(&text, "; and ", named.size() - kNamedRanks, " more");
  return text;
}

CollectiveWatch::CollectiveWatch(Options options) : options_(std::move(options)), last_progress_(steady_clock::now()) {
  thread_ = std::thread([this] {
    pthread_setname_np(pthread_self(), "collectives");
    const c10::DeviceGuard guard(options_.device);
    Run();
  });
}

CollectiveWatch::~CollectiveWatch() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

size_t CollectiveWatch::Join(const std::string& name, c10::intrusive_ptr<c10d::Backend> backend) {
  const std::lock_guard<std::mutex> lock(mutex_);
  groups_.push_back({name, std::move(backend), {}, 0});
  return groups_.size() - 1;
}

void CollectiveWatch::Pause(bool on) {
  const std::lock_guard<std::mutex> lock(mutex_);
  paused_ = on;
}

void CollectiveWatch::Starts(size_t group, const CollectiveCall& call) {
  const Group* joined = nullptr;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (paused_) return;
    joined = &groups_[group];
    LastCalls& calls = groups_[group].calls;
    calls.push_back(call);
    if (calls.size() > kKeptCalls) calls.pop_front();
    if (pending_.empty()) last_progress_ = steady_clock::now();
    published_ = false;
  }
  if (options_.check_calls) CompareCalls(*joined, call);
}

void CollectiveWatch::Awaited(size_t group, const CollectiveCall& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (paused_) return;
  c10::Event event(options_.device.type());
  if (!free_.empty()) {
    event = std::move(free_.back());
    free_.pop_back();
  }
  event.record(c10::impl::VirtualGuardImpl(options_.device.type()).getStream(options_.device));
  if (pending_.empty()) last_progress_ = steady_clock::now();
  pending_.push_back({group, call, std::move(event)});
}

// Each rank writes its call under the collective's number, and reads the others'. Nobody reads a number's calls any
// more when a rank is two further.
void CollectiveWatch::CompareCalls(const Group& group, const CollectiveCall& call) {
  const int rank = group.backend->getRank(), size = group.backend->getSize();
  const auto key = [&](int64_t sequence, int of) { return absl::StrCat("check/", group.name, "/", sequence, "/", of); };
  options_.store->set(key(call.sequence, rank), EncodeCalls({call}));
  std::vector<CollectiveCall> calls;
  for (int other = 0; other < size; ++other) {
    const LastCalls theirs = DecodeCalls(options_.store->get(key(call.sequence, other)));
    calls.push_back(theirs.empty() ? CollectiveCall{} : theirs[0]);
  }
  if (call.sequence > 2) options_.store->deleteKey(key(call.sequence - 2, rank));
  CheckSameCall(calls);
}

void CollectiveWatch::TakeEnded() {
  while (!pending_.empty() && pending_.front().event.query()) {
    Pending& first = pending_.front();
    groups_[first.group].ended = first.call.sequence;
    free_.push_back(std::move(first.event));
    pending_.pop_front();
    last_progress_ = steady_clock::now();
    published_ = false;
  }
}

void CollectiveWatch::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!stop_) {
    changed_.wait_for(lock, kLook);
    // An error of the device is the training thread's to report.
    if (!CatchTorch([&] { TakeEnded(); }).ok()) return;
    const auto quiet = steady_clock::now() - last_progress_;
    const bool speaks = quiet > QuietLimit(options_.timeout) && !std::exchange(published_, true);
    const bool is_stuck = !pending_.empty() && quiet > options_.timeout;
    if (stop_ || (!speaks && !is_stuck)) continue;
    const std::deque<Group> groups = groups_;  // the store is asked without the lock
    const auto [group, call] =
        is_stuck ? std::pair(pending_.front().group, pending_.front().call) : std::pair(size_t{0}, CollectiveCall{});
    lock.unlock();
    CatchTorch([&] { Publish(groups); }).IgnoreError();
    if (is_stuck) return Report(groups[group], call);
    lock.lock();
  }
}

void CollectiveWatch::Report(const Group& group, const CollectiveCall& stuck) {
  std::string why = absl::StrCat(stuck.ToString(), " of group ", group.name, " did not end in ",
                                 options_.timeout.count() / 1000, " s (dist_timeout): ");
  const absl::Status status = CatchTorch([&] { absl::StrAppend(&why, Explain(group, stuck)); });
  if (!status.ok()) absl::StrAppend(&why, "the store does not say where the ranks are: ", status.message());
  absl::StrAppend(&why, Abandon(why, std::chrono::seconds(1)));
  options_.on_stuck(absl::DeadlineExceededError(why));
}

void CollectiveWatch::Publish(const std::deque<Group>& groups) {
  for (const Group& group : groups)
    options_.store->set(KeyOf(group.name, group.backend->getRank()), EncodeCalls(group.calls));
}

std::optional<LastCalls> CollectiveWatch::CallsOf(const Group& group, int rank) {
  const std::string key = KeyOf(group.name, rank);
  if (!options_.store->check({key})) return std::nullopt;
  return DecodeCalls(options_.store->get(key));
}

std::string CollectiveWatch::Explain(const Group& group, const CollectiveCall& stuck) {
  const auto until = steady_clock::now() + kAskLimit;
  for (;;) {
    std::vector<std::optional<LastCalls>> by_rank;
    for (int rank = 0; rank < group.backend->getSize(); ++rank) by_rank.push_back(CallsOf(group, rank));
    const bool all_said =
        std::all_of(by_rank.begin(), by_rank.end(), [](const auto& said) { return said.has_value(); });
    if (all_said || steady_clock::now() > until) return ExplainStuck(stuck, group.backend->getRank(), by_rank);
    std::this_thread::sleep_for(kLook);
  }
}

std::string CollectiveWatch::Record(const std::string& why) {
  nlohmann::json record = {{"why", why}, {"groups", nlohmann::json::array()}};
  for (const Group& group : groups_) {
    nlohmann::json calls = nlohmann::json::array();
    for (const CollectiveCall& call : group.calls)
      calls.push_back({{"call", call.ToString()}, {"ended", call.sequence <= group.ended}});
    record["groups"].push_back({{"name", group.name},
                                {"rank", group.backend->getRank()},
                                {"ranks", group.backend->getSize()},
                                {"calls", std::move(calls)}});
  }
  if (options_.backend_record) {
    nlohmann::json backend = ParseJson(options_.backend_record());
    record["backend"] = backend.is_discarded() ? nlohmann::json() : std::move(backend);
  }
  return record.dump(1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string CollectiveWatch::Abandon(const std::string& why, Millis limit) {
  // Shared with the thread below, which may outlive this call.
  struct Aborting {
    std::mutex mutex;
    std::condition_variable done;
    bool is_done = false;
    std::vector<c10::intrusive_ptr<c10d::Backend>> backends;
  };
  const auto aborting = std::make_shared<Aborting>();
  std::string text;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Group& group : groups_) aborting->backends.push_back(group.backend);
    absl::Status written = MakeDirs(DirName(options_.record_path));
    if (written.ok())
      written = CatchTorch([&] { return AtomicWriteFile(options_.record_path, Record(why), {0600, false}); });
    if (written.ok()) text = absl::StrCat("; flight record: ", options_.record_path);
  }
  std::thread([aborting] {
    for (const auto& backend : aborting->backends) CatchTorch([&] { backend->abort(); }).IgnoreError();
    const std::lock_guard<std::mutex> lock(aborting->mutex);
    aborting->is_done = true;
    aborting->done.notify_all();
  }).detach();
  std::unique_lock<std::mutex> lock(aborting->mutex);
  aborting->done.wait_for(lock, limit, [&] { return aborting->is_done; });
  return text;
}

}  // namespace composer
