// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/reachability.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "net/network_facts.h"

namespace composer {
namespace {

std::string From(const ReachAttempt& attempt) {
  if (attempt.source.empty()) return "no route";
  return attempt.interface.empty() ? absl::StrCat("from ", attempt.source)
                                   : absl::StrCat("from ", attempt.source, " on ", attempt.interface);
}

std::string What(int error) {
  switch (error) {
    case 0:
      return "connected, but nobody there answers as a rendezvous";
    case ECONNREFUSED:
      return "connection refused";
    case ETIMEDOUT:
      return "no answer";
    default:
      return std::strerror(error);
  }
}

std::string Advice(const Reachability& reachability) {
  if (!reachability.resolve_error.empty()) return "check --master_addr, and the name service of this machine";
  switch (reachability.attempts.front().error) {
    case 0:
      return absl::StrCat("port ", reachability.endpoint.port,
                          " belongs to another program, or to a job whose "
                          "certificates or token differ: choose another --master_port");
    case ECONNREFUSED:
      return "the machine is there, but nothing listens: is the launcher of node 0 running there with the same "
             "--master_port and more than one node?";
    case ETIMEDOUT:
      return "a firewall, or the wrong network: can this machine reach that address (ping, ss -ltn there)?";
    default:
      return "check --master_addr and the routes of this machine (ip route)";
  }
}

}  // namespace

Reachability ProbeReachability(const Endpoint& endpoint, absl::Duration limit) {
  Reachability result = {.endpoint = endpoint};
  const auto addresses = ResolveHost(endpoint.host);
  if (!addresses.ok()) {
    result.resolve_error = std::string(addresses.status().message());
    return result;
  }
  const std::vector<NetworkInterface> interfaces = ListInterfaces();
  for (const std::string& address : *addresses) {
    ReachAttempt attempt = {.address = address, .source = SourceAddress(address)};
    for (const NetworkInterface& i : interfaces) {
      if (i.address == attempt.source) attempt.interface = i.name;
    }
    attempt.error = attempt.source.empty() ? ENETUNREACH : TryConnect(address, endpoint.port, limit);
    result.attempts.push_back(std::move(attempt));
  }
  return result;
}

std::string DescribeReachability(const Reachability& reachability) {
  if (!reachability.resolve_error.empty()) return reachability.resolve_error;
  return absl::StrJoin(reachability.attempts, "; ", [&](std::string* out, const ReachAttempt& attempt) {
    const Endpoint numeric = {attempt.address, reachability.endpoint.port};
    absl::StrAppend(out, What(attempt.error), " at ", numeric.ToString(), " (", From(attempt), ")");
  });
}

std::string ExplainUnreachable(const Reachability& reachability, absl::Duration tried) {
  return absl::StrCat("cannot reach the rendezvous at ", reachability.endpoint.ToString(), ", tried for ",
                      absl::FormatDuration(absl::Trunc(tried, absl::Milliseconds(100))), ": ",
                      DescribeReachability(reachability), "; ", Advice(reachability));
}

}  // namespace composer
