// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/failure_cause.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/string_view.h"

namespace composer {
namespace {

// Returns the length of the valid sequence at the start of `text`, or 0 if there is none (RFC 3629: no surrogates, no
// overlong forms).
size_t SequenceLength(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto in = [&](size_t i, int low, int high) { return i < text.size() && byte(i) >= low && byte(i) <= high; };
  const auto tail = [&](size_t i) { return in(i, 0x80, 0xBF); };
  const int lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead <= 0xDF) return tail(1) ? 2 : 0;
  if (lead >= 0xE0 && lead <= 0xEF) {
    return in(1, lead == 0xE0 ? 0xA0 : 0x80, lead == 0xED ? 0x9F : 0xBF) && tail(2) ? 3 : 0;
  }
  if (lead >= 0xF0 && lead <= 0xF4) {
    return in(1, lead == 0xF0 ? 0x90 : 0x80, lead == 0xF4 ? 0x8F : 0xBF) && tail(2) && tail(3) ? 4 : 0;
  }
  return 0;
}

std::string ValidUtf8(absl::string_view text) {
  std::string result;
  result.reserve(text.size());
  while (!text.empty()) {
    const size_t length = SequenceLength(text);
    if (length == 0) {
      result.push_back('?');
    } else {
      result.append(text.data(), length);
    }
    text.remove_prefix(std::max<size_t>(length, 1));
  }
  return result;
}

}  // namespace

void TidyText(std::string& text, size_t max_bytes) { text = ValidUtf8(absl::string_view(text).substr(0, max_bytes)); }

void TidyCause(proto::FailureCause& cause) {
  const absl::string_view tail = cause.stderr_tail();
  TidyText(*cause.mutable_node_id(), kMaxCauseMessageBytes);
  TidyText(*cause.mutable_message(), kMaxCauseMessageBytes);
  if (cause.has_verdict()) {
    TidyText(*cause.mutable_verdict()->mutable_decision(), kMaxCauseMessageBytes);
    TidyText(*cause.mutable_verdict()->mutable_tally()->mutable_user_error(), kMaxCauseMessageBytes);
  }
  cause.set_stderr_tail(ValidUtf8(tail.substr(tail.size() - std::min(tail.size(), kMaxCauseStderrBytes))));
}

bool IsBetterCause(const proto::FailureCause& later, const proto::FailureCause& told) {
  const bool explains = !later.collateral() && !later.vague();
  return explains && (told.collateral() || told.vague());
}

proto::FailureCause NodeCause(const std::string& node_id, std::string message, absl::Time now, bool vague) {
  proto::FailureCause cause;
  cause.set_node_id(node_id);
  cause.set_rank(-1);
  cause.set_message(std::move(message));
  cause.set_unix_micros(absl::ToUnixMicros(now));
  cause.set_vague(vague);
  return cause;
}

}  // namespace composer
