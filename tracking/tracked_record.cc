// SPDX-License-Identifier: Apache-2.0
#include "tracking/tracked_record.h"

#include <cmath>
#include <utility>

#include "views/read/flat_json.h"

namespace composer {
namespace {

int64_t Whole(double number) { return number >= 0 && number < 9e18 ? static_cast<int64_t>(number) : 0; }

}  // namespace

bool ParseTrackedRecord(absl::string_view line, TrackedRecord& record) {
  FlatJson json(line);
  bool has_batch = false;
  for (JsonMember member; json.Next(member);) {
    const double number = member.number();
    if (member.key == "time/batch") {
      record.row.batch = Whole(number);
      has_batch = true;
    } else if (member.key == "time/epoch") {
      record.row.epoch = Whole(number);
    } else if (member.key == "time/sample") {
      record.row.sample = Whole(number);
    } else if (member.key == "time/token") {
      record.row.token = Whole(number);
    } else if (member.key == "wall") {
      record.row.wall = std::isfinite(number) ? number : 0;
    } else if (!IsOriginOfRecord(member.key)) {
      if (std::string name = WithoutEscapes(member.key); !name.empty())
        record.values.emplace_back(std::move(name), number);
    }
  }
  return json.valid() && has_batch;
}

}  // namespace composer
