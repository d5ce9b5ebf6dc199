// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/socket_interface.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

const std::vector<NetworkInterface> kCards = {
    {"lo", "127.0.0.1", true}, {"eth0", "10.0.0.1"}, {"eth0", "fe80::1"}, {"eth1", "10.1.0.1"}};

InterfaceFacts ANode() {
  InterfaceFacts facts = {"node 1 (host)", {"10.0.0.9", 7501}, false, kCards, nullptr};
  facts.connect = [](const std::string& card) { return card == "eth1" ? ETIMEDOUT : 0; };
  return facts;
}

TEST(SocketInterfaceTest, NamesOfGlooAndNccl) {
  const auto count = [](const char* variable, const char* value) {
    return NamedInterfaces(variable, value, kCards).size();
  };
  EXPECT_EQ(count("GLOO_SOCKET_IFNAME", "eth0"), 2u);
  EXPECT_EQ(count("GLOO_SOCKET_IFNAME", "eth"), 0u);
  EXPECT_EQ(count("GLOO_SOCKET_IFNAME", "eth9,eth1"), 1u);
  EXPECT_EQ(count("NCCL_SOCKET_IFNAME", "eth"), 3u);
  EXPECT_EQ(count("NCCL_SOCKET_IFNAME", "=eth"), 0u);
  EXPECT_EQ(count("NCCL_SOCKET_IFNAME", "^eth,lo"), 0u);
  EXPECT_EQ(count("NCCL_SOCKET_IFNAME", "^docker"), 4u);
}

TEST(SocketInterfaceTest, CardsThatLeadThere) {
  for (const char* value : {"eth0", "eth1,eth0"}) {
    EXPECT_TRUE(CheckSocketInterface("GLOO_SOCKET_IFNAME", value, ANode()).ok()) << value;
  }
  EXPECT_TRUE(CheckSocketInterface("NCCL_SOCKET_IFNAME", "^docker", ANode()).ok());
  InterfaceFacts absent = ANode();  // the rendezvous is not up yet: nothing can be said
  absent.connect = [](const std::string&) { return ETIMEDOUT; };
  EXPECT_TRUE(CheckSocketInterface("GLOO_SOCKET_IFNAME", "eth1", absent).ok());
  InterfaceFacts refused = ANode();
  refused.connect = [](const std::string&) { return ECONNREFUSED; };
  EXPECT_TRUE(CheckSocketInterface("GLOO_SOCKET_IFNAME", "eth1", refused).ok());
  InterfaceFacts unprivileged = ANode();
  unprivileged.connect = [](const std::string& card) { return card.empty() ? 0 : EPERM; };
  EXPECT_TRUE(CheckSocketInterface("GLOO_SOCKET_IFNAME", "eth1", unprivileged).ok());
  InterfaceFacts here = ANode();
  here.endpoint_is_here = true;
  EXPECT_TRUE(CheckSocketInterface("GLOO_SOCKET_IFNAME", "eth1", here).ok());
  here.endpoint.host = "127.0.0.1";
  EXPECT_TRUE(CheckSocketInterface("GLOO_SOCKET_IFNAME", "lo", here).ok());
}

TEST(SocketInterfaceTest, CardsThatDoNot) {
  const struct {
    const char* value;
    const char* why;
  } cases[] = {{"eth9", "no interface of that name is up"},
               {"lo", "that is lo, which does not leave this machine"},
               {"eth1", "that is eth1, from which the rendezvous at 10.0.0.9:7501 is not reached (no answer)"}};
  for (const auto& c : cases) {
    const std::string said(CheckSocketInterface("GLOO_SOCKET_IFNAME", c.value, ANode()).message());
    EXPECT_THAT(said, HasSubstr(absl::StrCat("node 1 (host): GLOO_SOCKET_IFNAME is `", c.value, "`, ")));
    EXPECT_THAT(said, HasSubstr(c.why));
    EXPECT_THAT(said, HasSubstr("there are lo (127.0.0.1), eth0 (10.0.0.1)"));
    EXPECT_THAT(said, HasSubstr("unset GLOO_SOCKET_IFNAME"));
  }
}

}  // namespace
}  // namespace composer
