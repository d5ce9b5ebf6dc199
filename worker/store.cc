// SPDX-License-Identifier: Apache-2.0
#include "worker/store.h"

#include <c10/util/Exception.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

using Bytes = RendezvousStore::Bytes;

// Added to the wait itself, for the round trip.
constexpr absl::Duration kCallSlack = absl::Seconds(5);

Bytes ToBytes(const std::string& text) { return Bytes(text.begin(), text.end()); }
std::string ToText(const Bytes& bytes) { return std::string(bytes.begin(), bytes.end()); }

}  // namespace

RendezvousStore::RendezvousStore(std::shared_ptr<grpc::Channel> channel, proto::Caller caller, Millis timeout,
                                 bool write_once)
    : c10d::Store(timeout),
      channel_(std::move(channel)),
      caller_(std::move(caller)),
      write_once_(write_once),
      stub_(proto::KeyValue::NewStub(channel_)) {}

c10::intrusive_ptr<c10d::Store> RendezvousStore::clone() {
  return c10::make_intrusive<RendezvousStore>(channel_, caller_, timeout_, write_once_);
}

template <typename Request, typename Reply>
Reply RendezvousStore::Call(const char* what, Method<Request, Reply> method, Request& request, Millis timeout) {
  *request.mutable_caller() = caller_;
  grpc::ClientContext context;
  if (timeout != kNoTimeout) context.set_deadline(DeadlineAfter(absl::FromChrono(timeout) + kCallSlack));
  Reply reply;
  const grpc::Status status = (stub_.get()->*method)(&context, request, &reply);
  if (status.ok()) return reply;
  const std::string message = absl::StrCat("store of job \"", caller_.job(), "\", generation ", caller_.generation(),
                                           ": ", what, ": ", status.error_message());
  if (status.error_code() == grpc::StatusCode::INVALID_ARGUMENT) C10_THROW_ERROR(ValueError, message);
  C10_THROW_ERROR(DistStoreError, message);
}

void RendezvousStore::set(const std::string& key, const Bytes& value) { multiSet({key}, {value}); }

void RendezvousStore::multiSet(const std::vector<std::string>& keys, const std::vector<Bytes>& values) {
  TORCH_CHECK_VALUE(keys.size() == values.size(), "multiSet: ", keys.size(), " keys but ", values.size(), " values");
  proto::SetRequest request;
  for (size_t i = 0; i < keys.size(); ++i) {
    proto::KeyAndValue& entry = *request.add_entries();
    entry.set_key(keys[i]);
    entry.set_value(values[i].data(), values[i].size());
  }
  Call("set", &proto::KeyValue::Stub::Set, request, timeout_);
}

Bytes RendezvousStore::compareSet(const std::string& key, const Bytes& expected, const Bytes& desired) {
  proto::CompareSetRequest request;
  request.set_key(key);
  request.set_expected(ToText(expected));
  request.set_desired(ToText(desired));
  return ToBytes(Call("compareSet", &proto::KeyValue::Stub::CompareSet, request, timeout_).value());
}

proto::GetReply RendezvousStore::Fetch(const std::vector<std::string>& keys, bool with_values, Millis timeout) {
  proto::GetRequest request;
  request.mutable_keys()->Assign(keys.begin(), keys.end());
  request.set_without_values(!with_values);
  request.set_write_once(write_once_);
  request.set_wait_millis(timeout == kNoTimeout ? -1 : timeout.count());
  return Call(with_values ? "get" : "wait", &proto::KeyValue::Stub::Get, request, timeout);
}

Bytes RendezvousStore::get(const std::string& key) { return ToBytes(Fetch({key}, true, timeout_).values(0)); }

std::vector<Bytes> RendezvousStore::multiGet(const std::vector<std::string>& keys) {
  const proto::GetReply reply = Fetch(keys, true, timeout_);
  std::vector<Bytes> values;
  values.reserve(keys.size());
  for (const std::string& value : reply.values()) values.push_back(ToBytes(value));
  return values;
}

void RendezvousStore::wait(const std::vector<std::string>& keys) { wait(keys, timeout_); }

void RendezvousStore::wait(const std::vector<std::string>& keys, const Millis& timeout) { Fetch(keys, false, timeout); }

int64_t RendezvousStore::add(const std::string& key, int64_t amount) {
  proto::AddRequest request;
  request.set_key(key);
  request.set_amount(amount);
  return Call("add", &proto::KeyValue::Stub::Add, request, timeout_).value();
}

bool RendezvousStore::deleteKey(const std::string& key) {
  proto::DeleteRequest request;
  request.set_key(key);
  return Call("deleteKey", &proto::KeyValue::Stub::Delete, request, timeout_).deleted();
}

bool RendezvousStore::check(const std::vector<std::string>& keys) {
  proto::CheckRequest request;
  request.mutable_keys()->Assign(keys.begin(), keys.end());
  return Call("check", &proto::KeyValue::Stub::Check, request, timeout_).all_present();
}

int64_t RendezvousStore::getNumKeys() {
  proto::CountRequest request;
  return Call("getNumKeys", &proto::KeyValue::Stub::Count, request, timeout_).count();
}

}  // namespace composer
