// SPDX-License-Identifier: Apache-2.0
#include "storage/object_requests.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {

int64_t SizeOfPieces(Pieces pieces) {
  int64_t size = 0;
  for (const absl::string_view piece : pieces) size += static_cast<int64_t>(piece.size());
  return size;
}

std::vector<absl::string_view> CutPieces(Pieces pieces, int64_t begin, int64_t end) {
  std::vector<absl::string_view> cut;
  int64_t at = 0;
  for (const absl::string_view piece : pieces) {
    const auto size = static_cast<int64_t>(piece.size());
    const int64_t from = std::max<int64_t>(begin - at, 0), to = std::min(end - at, size);
    if (from < to) cut.push_back(piece.substr(static_cast<size_t>(from), static_cast<size_t>(to - from)));
    at += size;
    if (at >= end) break;
  }
  return cut;
}

absl::StatusOr<int64_t> SizeOfAnswer(const HttpResponse& head, const std::string& location) {
  int64_t size = -1;
  if (!absl::SimpleAtoi(head.Header("content-length"), &size) || size < 0)
    return absl::InternalError(location + ": the server reports no size");
  return size;
}

absl::Status ReadRange(ObjectStore& store, const std::string& key, int64_t offset, absl::Span<char> into,
                       GetObjectRange get) {
  if (into.empty()) {
    ASSIGN_OR_RETURN(const int64_t size, store.Size(key));
    return offset <= size ? absl::OkStatus() : absl::OutOfRangeError(store.Location(key) + ": ends before");
  }
  RETURN_IF_ERROR(CheckKey(key));
  HttpRequest request;
  request.into = into;
  request.headers = {{"range", absl::StrCat("bytes=", offset, "-", offset + static_cast<int64_t>(into.size()) - 1)}};
  ASSIGN_OR_RETURN(const RepeatedAnswer answer, get(std::move(request)));
  if (answer.response.status == 206 || (answer.response.status == 200 && offset == 0)) return absl::OkStatus();
  return absl::InternalError(store.Location(key) + ": the server ignores ranges");
}

}  // namespace composer
