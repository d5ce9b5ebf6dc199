// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/node_address.h"

#include <algorithm>

#include "net/endpoint.h"

namespace composer {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr char kOutside[] = "192.0.2.1";  // reserved for documentation (RFC 5737), so it follows the default route

std::string InterfaceOf(const AddressFacts& facts, const std::string& address) {
  const auto it = std::find_if(facts.interfaces.begin(), facts.interfaces.end(),
                               [&](const NetworkInterface& i) { return i.address == address; });
  return it == facts.interfaces.end() ? "" : it->name;
}

}  // namespace

NodeAddress ChooseNodeAddress(const AddressFacts& facts) {
  const auto choose = [&](const std::string& address, const char* origin) {
    return NodeAddress{address, InterfaceOf(facts, address), origin};
  };
  if (!facts.given.empty()) return choose(facts.given, "flag --local-addr");
  if (!facts.source.empty() && !IsLoopbackName(facts.source)) return choose(facts.source, "towards the rendezvous");
  if (IsLoopbackName(facts.endpoint_host)) return choose(kLoopback, "the rendezvous is on loopback");
  if (!facts.outside_source.empty()) return choose(facts.outside_source, "towards the outside");
  for (const NetworkInterface& i : facts.interfaces) {
    if (!i.loopback) return choose(i.address, "the first interface");
  }
  return choose(kLoopback, "there is no other interface");
}

bool IsThisMachine(const AddressFacts& facts) {
  return std::any_of(facts.endpoint.begin(), facts.endpoint.end(), [&](const std::string& address) {
    return IsLoopbackName(address) || !InterfaceOf(facts, address).empty();
  });
}

AddressFacts GatherAddressFacts(const std::string& given, const std::string& endpoint_host) {
  AddressFacts facts = {.given = given, .endpoint_host = endpoint_host, .interfaces = ListInterfaces()};
  facts.endpoint = ResolveHost(endpoint_host).value_or(std::vector<std::string>());
  if (!facts.endpoint.empty()) facts.source = SourceAddress(facts.endpoint[0]);
  facts.outside_source = SourceAddress(kOutside);
  return facts;
}

}  // namespace composer
