// Parses the --preemption flag: which announcers to ask, and where. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"

namespace composer {

enum class PreemptionKind { kAws, kAwsRebalance, kGcp, kAzure, kFile };

struct PreemptionSpec {
  PreemptionKind kind;
  std::string where;  // the base of its URLs, without a trailing slash; for kFile the path
  bool operator==(const PreemptionSpec&) const = default;
};

// What the firmware says about the machine (/sys/class/dmi/id).
struct MachineFacts {
  std::string vendor;        // sys_vendor
  std::string product;       // product_name
  std::string bios_version;  // bios_version
  std::string chassis_tag;   // chassis_asset_tag
};

// `text` is a comma-separated list of aws, aws-rebalance, gcp, azure, file:PATH and auto; `aws=URL` and so on use
// another address than the cloud's own. auto means the cloud that the facts identify, if any. "" and "off" mean none.
// Addresses also come from AWS_EC2_METADATA_SERVICE_ENDPOINT (a URL), GCE_METADATA_HOST (host[:port]) and
// COMPOSER_AZURE_METADATA_ENDPOINT (a URL). Returns kInvalidArgument for an unknown word, naming the nearest right one,
// a URL that is not http://, or a relative path.
absl::StatusOr<std::vector<PreemptionSpec>> ParsePreemption(absl::string_view text, const Environment& environment,
                                                            const MachineFacts& facts);

// Reads the facts from `folder`; what cannot be read is "".
MachineFacts ReadMachineFacts(const std::string& folder = "/sys/class/dmi/id");

}  // namespace composer
