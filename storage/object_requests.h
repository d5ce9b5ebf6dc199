// What the stores over HTTP have in common: a body that is sent in parts, an object's size, and ranges of its bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "net/http.h"
#include "storage/object_store.h"
#include "storage/retrying_http.h"

namespace composer {

int64_t SizeOfPieces(Pieces pieces);
// Returns the pieces that hold bytes [begin, end); the memory stays the caller's.
std::vector<absl::string_view> CutPieces(Pieces pieces, int64_t begin, int64_t end);

// Returns the size that the answer to a HEAD request gives; kInternal when there is none.
absl::StatusOr<int64_t> SizeOfAnswer(const HttpResponse& head, const std::string& location);

// ObjectStore::Read by `get`, which sends a GET request for the object and returns an answer that is a success.
using GetObjectRange = absl::FunctionRef<absl::StatusOr<RepeatedAnswer>(HttpRequest request)>;
absl::Status ReadRange(ObjectStore& store, const std::string& key, int64_t offset, absl::Span<char> into,
                       GetObjectRange get);

}  // namespace composer
