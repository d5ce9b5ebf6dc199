// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/admission.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

proto::NodeInfo Node(const std::string& id, int rank = -1) {
  proto::NodeInfo node;
  node.set_node_id(id);
  node.set_node_rank(rank);
  node.set_hostname("host-" + id);
  node.set_slots(2);
  node.set_config_hash("c1");
  node.set_version("0.1.0");
  return node;
}

TEST(CheckAdmission, FirstNodeSetsTheTerms) {
  EXPECT_FALSE(CheckAdmission("job", Node("a"), {.job = "job"}).has_value());
}

TEST(CheckAdmission, SameTermsAreWelcome) {
  const proto::NodeInfo other = Node("a", 0);
  EXPECT_FALSE(CheckAdmission("job", Node("b", 1), {.job = "job", .example = &other}).has_value());
}

TEST(CheckAdmission, RefusalsNameTheFieldItsValueAndWhatTheOthersHave) {
  const proto::NodeInfo other = Node("a", 1);
  const AdmissionTerms terms{.job = "job", .example = &other};
  AdmissionTerms taken = terms;
  taken.same_rank = &other;
  proto::NodeInfo config = Node("b"), version = Node("b"), slots = Node("b"), anonymous = Node(""), huge = Node("b"),
                  long_name = Node("b");
  config.set_config_hash("c2");
  proto::NodeInfo keys = Node("b"), of_keys = other;
  keys.set_config_hash("c2 seed=1 lr=2 precision=3");
  of_keys.set_config_hash("c1 seed=1 lr=1");
  AdmissionTerms with_keys = terms;
  with_keys.example = &of_keys;
  version.set_version("9");
  slots.set_slots(0);
  huge.set_slots(1025);
  long_name.set_hostname(std::string(2000, 'x'));
  const struct {
    const char* job;
    proto::NodeInfo node;
    const AdmissionTerms& terms;
    const char* field;
    const char* message;
  } cases[] = {
      {"other", Node("b"), terms, "job", "job is \"other\", but this rendezvous serves \"job\""},
      {"job", config, terms, "config_hash",
       "config_hash is \"c2\", but node \"host-a\" has \"c1\": all nodes of a job must have the same"},
      {"job", keys, with_keys, "config_hash",
       "config_hash: the job's lr, precision is not what node \"host-a\" has: all nodes of a job must have the same "
       "configuration"},
      {"job", version, terms, "version",
       "version is \"9\", but node \"host-a\" has \"0.1.0\": all nodes of a job must have the same"},
      {"job", Node("b", 1), taken, "node_rank", "node_rank is 1, but node \"host-a\" has that one already"},
      {"job", slots, terms, "slots", "slots is 0, a node must have 1 to 1024 workers"},
      {"job", huge, terms, "slots", "slots is 1025, a node must have 1 to 1024 workers"},
      {"job", anonymous, terms, "node_id", "node_id is empty"},
      {"job", long_name, terms, "hostname", "hostname is 2000 bytes long, at most 1024 are allowed"},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.field);
    const auto refusal = CheckAdmission(c.job, c.node, c.terms);
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->field, c.field);
    EXPECT_EQ(refusal->message, c.message);
  }
}

TEST(AdmissionTest, PluginsAndDataMustBeTheSame) {
  proto::NodeInfo mine, other;
  for (proto::NodeInfo* node : {&mine, &other}) {
    node->set_node_id(node == &mine ? "a" : "b");
    node->set_hostname(node == &mine ? "host-a" : "host-b");
    node->set_slots(1);
    node->set_node_rank(-1);
    node->set_plugin_hash("p1");
    proto::DataPath& data = *node->add_data_paths();
    data.set_key("train_dataloader.path");
    data.set_path("/data");
    data.set_fingerprint("file of 3 bytes");
  }
  const AdmissionTerms terms = {.job = "job", .example = &other};
  EXPECT_FALSE(CheckAdmission("job", mine, terms).has_value());
  mine.set_plugin_hash("p2");
  EXPECT_EQ(CheckAdmission("job", mine, terms)->field, "plugin_hash");
  EXPECT_EQ(CheckAdmission("job", mine, terms)->message,
            "plugin_hash is \"p2\", but node \"host-b\" has \"p1\": all nodes of a job must have the same");
  mine.set_plugin_hash("p1");
  mine.mutable_data_paths(0)->set_fingerprint("missing");
  EXPECT_EQ(CheckAdmission("job", mine, terms)->field, "data_paths");
  EXPECT_EQ(
      CheckAdmission("job", mine, terms)->message,
      "train_dataloader.path \"/data\": missing here, but file of 3 bytes on node \"host-b\": all nodes of a job must "
      "see the same data");
  mine.mutable_data_paths(0)->set_fingerprint(std::string(5000, 'x'));
  EXPECT_EQ(CheckAdmission("job", mine, terms)->message, "a data path is over 4096 bytes long");
  for (int i = 0; i < 70; ++i) mine.add_data_paths();
  EXPECT_EQ(CheckAdmission("job", mine, terms)->field, "data_paths");
}

}  // namespace
}  // namespace composer
