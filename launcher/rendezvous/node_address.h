// Which address of this node the other nodes are told, and whether an endpoint is this machine. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/network_facts.h"

namespace composer {

struct AddressFacts {
  std::string given;                  // --local-addr; "": none
  std::string endpoint_host;          // as the user wrote it
  std::vector<std::string> endpoint;  // its numeric addresses; empty: it has none
  std::string source;                 // SourceAddress of the first of them
  std::string outside_source;         // SourceAddress of some address outside; "": no route there
  std::vector<NetworkInterface> interfaces;
};

struct NodeAddress {
  std::string address;
  std::string interface;  // that has it; "": unknown
  std::string origin;     // for --explain
};

// The given one; else the one that packets to the endpoint come from. When the endpoint is this machine under a name that
// /etc/hosts maps to 127.x, the one towards the outside: the others know that name by another address. Loopback only when
// the user named the endpoint so, or there is nothing else.
NodeAddress ChooseNodeAddress(const AddressFacts& facts);

// Whether one of the endpoint's addresses is an interface's here.
bool IsThisMachine(const AddressFacts& facts);

// Asks resolver and kernel.
AddressFacts GatherAddressFacts(const std::string& given, const std::string& endpoint_host);

}  // namespace composer
