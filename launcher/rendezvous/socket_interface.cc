// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/socket_interface.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr absl::Duration kConnectLimit = absl::Milliseconds(700);

// Whether some machine answered, even if nobody listens there.
bool Answered(int error) { return error == 0 || error == ECONNREFUSED; }

std::string Names(const std::vector<NetworkInterface>& interfaces) {
  std::vector<std::string> names;
  for (const NetworkInterface& i : interfaces) names.push_back(i.name);
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return absl::StrJoin(names, ", ");
}

// Returns why none of the cards leads to the other nodes; "" if one does, or nobody can tell.
std::string WhyNoneLeadsThere(const std::vector<NetworkInterface>& named, const InterfaceFacts& facts) {
  const bool loopback = std::all_of(named.begin(), named.end(), [](const NetworkInterface& i) { return i.loopback; });
  if (loopback && !IsLoopbackName(facts.endpoint.host)) return "which does not leave this machine";
  if (facts.endpoint_is_here) return "";  // the addresses of the others are not known yet
  int error = 0;
  for (const NetworkInterface& card : named) {
    error = facts.connect(card.name);
    if (Answered(error) || error == EPERM) return "";
  }
  if (!Answered(facts.connect(""))) return "";  // the rendezvous is not there yet
  return absl::StrCat("from which the rendezvous at ", facts.endpoint.ToString(), " is not reached (",
                      error == ETIMEDOUT ? "no answer" : std::strerror(error),
                      "), while the route of this machine does");
}

}  // namespace

std::vector<NetworkInterface> NamedInterfaces(const std::string& variable, const std::string& value,
                                              const std::vector<NetworkInterface>& interfaces) {
  absl::string_view list = value;
  const bool without = absl::ConsumePrefix(&list, "^");
  const bool exact = absl::ConsumePrefix(&list, "=") || variable == "GLOO_SOCKET_IFNAME";
  const std::vector<std::string> wanted = absl::StrSplit(list, ',', absl::SkipEmpty());
  std::vector<NetworkInterface> result;
  std::copy_if(interfaces.begin(), interfaces.end(), std::back_inserter(result), [&](const NetworkInterface& i) {
    return without != std::any_of(wanted.begin(), wanted.end(), [&](const std::string& name) {
             return exact ? i.name == name : absl::StartsWith(i.name, name);
           });
  });
  return result;
}

std::string DescribeInterfaces(const std::vector<NetworkInterface>& interfaces) {
  return absl::StrJoin(interfaces, ", ", [](std::string* out, const NetworkInterface& i) {
    absl::StrAppend(out, i.name, " (", i.address, ")");
  });
}

absl::Status CheckSocketInterface(const std::string& variable, const std::string& value, const InterfaceFacts& facts) {
  const std::vector<NetworkInterface> named = NamedInterfaces(variable, value, facts.interfaces);
  const std::string why = named.empty() ? "but no interface of that name is up" : WhyNoneLeadsThere(named, facts);
  if (why.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      facts.node, ": ", variable, " is `", value, "`, ",
      named.empty() ? "" : absl::StrCat("that is ", Names(named), ", "), why,
      ", so its ranks would wait for the others; there are ", DescribeInterfaces(facts.interfaces), ": unset ",
      variable, ", and composer takes the interface towards the rendezvous, or name another one"));
}

absl::Status CheckSocketInterfaces(const Environment& environment, const std::string& node, const Endpoint& endpoint,
                                   bool endpoint_is_here) {
  for (const char* variable : kInterfaceVariables) {
    const std::string value = environment.GetOr(variable, "");
    if (value.empty()) continue;
    InterfaceFacts facts = {node, endpoint, endpoint_is_here, ListInterfaces(), nullptr};
    facts.connect = [&](const std::string& interface) {
      const auto addresses = ResolveHost(endpoint.host);
      return addresses.ok() ? TryConnect(addresses->front(), endpoint.port, kConnectLimit, interface) : EHOSTUNREACH;
    };
    RETURN_IF_ERROR(CheckSocketInterface(variable, value, facts));
  }
  return absl::OkStatus();
}

}  // namespace composer
