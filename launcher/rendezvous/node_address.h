// Decides which address of this node is announced to the other nodes, and whether an endpoint is this machine. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "net/network_facts.h"

namespace composer {

struct AddressFacts {
  std::string given;                  // --local-addr; "" if none
  std::string endpoint_host;          // as the user wrote it
  std::vector<std::string> endpoint;  // its numeric addresses; empty if it has none
  std::string source;                 // SourceAddress of the first of them
  std::string outside_source;         // SourceAddress for some outside address; "" if there is no route
  std::vector<NetworkInterface> interfaces;
};

struct NodeAddress {
  std::string address;
  std::string interface;  // the interface with this address; "" if unknown
  std::string origin;     // for --explain
};

// Returns the given address, else the source address of packets to the endpoint. If the endpoint is this machine under
// a name that /etc/hosts maps to 127.x, returns the address towards the outside, because the others know that name by
// another address. Returns loopback only if the user named the endpoint so, or there is nothing else.
NodeAddress ChooseNodeAddress(const AddressFacts& facts);

// Returns whether one of the endpoint's addresses belongs to an interface of this machine.
bool IsThisMachine(const AddressFacts& facts);

// Asks the resolver and the kernel. Not pure.
AddressFacts GatherAddressFacts(const std::string& given, const std::string& endpoint_host);

}  // namespace composer
