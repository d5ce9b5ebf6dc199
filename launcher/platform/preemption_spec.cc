// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/preemption_spec.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kMaxAddressBytes = 1024;
constexpr char kAzureChassis[] = "7783-7084-3265-9085-8269-3286-77";  // the same on every Azure machine

struct Cloud {
  const char* word;
  PreemptionKind kind;
  const char* address;
  const char* variable;
  const char* prefix;  // precedes the variable's value
};
constexpr Cloud kClouds[] = {
    {"aws", PreemptionKind::kAws, "http://169.254.169.254", "AWS_EC2_METADATA_SERVICE_ENDPOINT", ""},
    {"aws-rebalance", PreemptionKind::kAwsRebalance, "http://169.254.169.254", "AWS_EC2_METADATA_SERVICE_ENDPOINT", ""},
    {"gcp", PreemptionKind::kGcp, "http://metadata.google.internal", "GCE_METADATA_HOST", "http://"},
    {"azure", PreemptionKind::kAzure, "http://169.254.169.254", "COMPOSER_AZURE_METADATA_ENDPOINT", ""},
};

absl::Status UnknownWord(absl::string_view word) {
  std::vector<std::string> known = {"auto", "off", "file:"};
  for (const Cloud& cloud : kClouds) known.push_back(cloud.word);
  return absl::InvalidArgumentError(absl::StrCat("--preemption: `", word.substr(0, 100), "` is none of aws, ",
                                                 "aws-rebalance, gcp, azure, auto, off and file:PATH",
                                                 DidYouMean(word, known)));
}

absl::StatusOr<std::string> CheckAddress(absl::string_view address, absl::string_view origin) {
  const absl::string_view host = absl::StripPrefix(address, "http://");
  const bool plain = std::all_of(host.begin(), host.end(), [](char c) { return absl::ascii_isgraph(c) && c != '?'; });
  if (host.size() == address.size() || host.empty() || host[0] == '/' || !plain || address.size() > kMaxAddressBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(origin, ": `", address.substr(0, 100), "` must be an address as http://HOST[:PORT]"));
  }
  return std::string(absl::StripSuffix(address, "/"));
}

absl::StatusOr<PreemptionSpec> SpecOf(const Cloud& cloud, const Environment& environment) {
  const std::string given = environment.GetOr(cloud.variable, "");
  if (given.empty()) return PreemptionSpec{cloud.kind, cloud.address};
  ASSIGN_OR_RETURN(std::string address, CheckAddress(absl::StrCat(cloud.prefix, given), cloud.variable));
  return PreemptionSpec{cloud.kind, std::move(address)};
}

// Returns the name of the machine's cloud; "" if there is none or it is unknown.
absl::string_view CloudOf(const MachineFacts& facts) {
  const std::string bios = absl::AsciiStrToLower(facts.bios_version);
  if (facts.vendor == "Amazon EC2" || absl::StrContains(bios, "amazon")) return "aws";
  if (facts.vendor == "Google" || facts.product == "Google Compute Engine") return "gcp";
  if (facts.vendor == "Microsoft Corporation" && facts.chassis_tag == kAzureChassis) return "azure";
  return "";
}

absl::StatusOr<PreemptionSpec> ParseWord(absl::string_view word, const Environment& environment) {
  absl::string_view path = word;
  if (absl::ConsumePrefix(&path, "file:")) {
    if (!absl::StartsWith(path, "/") || path.size() > kMaxAddressBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("--preemption: `", word.substr(0, 100), "` needs an absolute path, file:/run/stop"));
    }
    return PreemptionSpec{PreemptionKind::kFile, std::string(path)};
  }
  const std::pair<absl::string_view, absl::string_view> parts = absl::StrSplit(word, absl::MaxSplits('=', 1));
  const auto cloud = std::find_if(std::begin(kClouds), std::end(kClouds),
                                  [&, name = parts.first](const Cloud& c) { return c.word == name; });
  if (cloud == std::end(kClouds)) return UnknownWord(word);
  if (!absl::StrContains(word, '=')) return SpecOf(*cloud, environment);
  ASSIGN_OR_RETURN(std::string address, CheckAddress(parts.second, "--preemption"));
  return PreemptionSpec{cloud->kind, std::move(address)};
}

}  // namespace

absl::StatusOr<std::vector<PreemptionSpec>> ParsePreemption(absl::string_view text, const Environment& environment,
                                                            const MachineFacts& facts) {
  std::vector<PreemptionSpec> specs;
  if (text.empty() || text == "off") return specs;
  for (absl::string_view word : absl::StrSplit(text, ',')) {
    if (word == "auto") {
      word = CloudOf(facts);
      if (word.empty()) continue;
    }
    ASSIGN_OR_RETURN(PreemptionSpec spec, ParseWord(word, environment));
    if (std::find(specs.begin(), specs.end(), spec) == specs.end()) specs.push_back(std::move(spec));
  }
  return specs;
}

MachineFacts ReadMachineFacts(const std::string& folder) {
  const auto read = [&](const char* name) {
    const auto text = ReadFile(JoinPath(folder, name), 4096);
    return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : std::string();
  };
  return {read("sys_vendor"), read("product_name"), read("bios_version"), read("chassis_asset_tag")};
}

}  // namespace composer
