// Checks the network cards that GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME name before a rank starts: a card that is not
// there, or from which the other nodes cannot be reached, would otherwise show as ranks that wait for each other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/env.h"
#include "launcher/rendezvous/node_address.h"
#include "net/endpoint.h"

namespace composer {

inline constexpr const char* kInterfaceVariables[] = {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"};

// Returns the interfaces that the value of the variable names. Gloo takes names, NCCL beginnings of names and "=name";
// both take lists with commas. NCCL's "^name" names all others.
std::vector<NetworkInterface> NamedInterfaces(const std::string& variable, const std::string& value,
                                              const std::vector<NetworkInterface>& interfaces);

// Returns "eth0 (10.0.0.1), lo (127.0.0.1)".
std::string DescribeInterfaces(const std::vector<NetworkInterface>& interfaces);

struct InterfaceFacts {
  std::string node;   // "node 1 (host)"
  Endpoint endpoint;  // of the rendezvous
  bool endpoint_is_here = false;
  std::vector<NetworkInterface> interfaces;  // those that are up
  // Connects to the rendezvous by the interface ("": any) and returns 0 or errno.
  std::function<int(const std::string& interface)> connect;
};

// Returns kInvalidArgument, with node, value and fix, if no card that `value` names is there, or none of them reaches
// the rendezvous although the machine does.
absl::Status CheckSocketInterface(const std::string& variable, const std::string& value, const InterfaceFacts& facts);

// Checks the variables that are set. Not pure: it connects to the rendezvous, at most 0.7 s for each card.
absl::Status CheckSocketInterfaces(const Environment& environment, const std::string& node, const Endpoint& endpoint,
                                   bool endpoint_is_here);

}  // namespace composer
