// The worlds before the newest one that still have a say in what follows it; see quorum.h. Counts which of their nodes
// wait for the next world and which have heard of the newest one. Part of the coordinator: it has no lock and no clock.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

#include "proto/rendezvous.pb.h"
#include "rendezvous/failover/quorum.h"

namespace composer {

// A node as an elector: its parts in the worlds that it was in.
struct Voter {
  std::string node_id;
  std::vector<proto::Electorate> parts;
};

// Returns the voter of a node with this record.
Voter VoterOf(const std::string& node_id, const proto::MembershipRecord& record);

class QuorumHistory {
 public:
  using Parts = google::protobuf::RepeatedPtrField<proto::Electorate>;

  // With `holds_tie`, half of the nodes suffice before the first world.
  explicit QuorumHistory(bool holds_tie) : holds_tie_(holds_tie) {}

  // Returns whether a record's list may be believed; bounds its length and its texts.
  static bool IsValid(const Parts& parts);
  // Takes over the electorates of a world that others formed. Nobody waits and nobody knows of it yet.
  void Learn(const Parts& parts);
  // Records that a world has formed after `generation` (0: it is the first), whose `nodes` are its electorate. Nobody
  // waits.
  void Follow(uint64_t generation, const std::string& world, int nodes);
  void Clear();

  void StartWaiting(const Voter& voter) {
    HeedRival(voter);
    Count(voter, +1);
  }
  void StopWaiting(const Voter& voter) { Count(voter, -1); }
  // Records that the voter has heard of the newest world. Returns true when a majority of each electorate now has, so
  // that they no longer have a say.
  bool Hear(const Voter& voter);

  // Fills in a node's MembershipRecord: its part in each electorate.
  void Tell(const Voter& voter, Parts* parts) const;

  bool empty() const { return votes_.empty(); }
  const std::vector<Votes>& votes() const { return votes_; }

 private:
  struct Electorate {
    proto::Electorate world;                  // node_rank is unused
    std::unordered_set<std::string> knowing;  // names of electors
    bool rival = false;                       // not before the newest world; see HeedRival
  };

  // Makes a world that ours does not follow a rival whose majority must agree as well. The nodes before the first world
  // are counted by name, including those that continued with another first world. If a majority knows of that world
  // (its nodes carry no electorates before it), it may continue without the counted nodes. All worlds that such a
  // majority knows of follow each other, so only the newest rival counts.
  void HeedRival(const Voter& voter);
  void Add(const proto::Electorate& world);
  void Count(const Voter& voter, int change);

  const bool holds_tie_;
  uint64_t rival_ = 0;  // generation of the newest rival, 0: there is none
  std::vector<Electorate> history_;
  std::vector<Votes> votes_;  // one per element of history_
};

}  // namespace composer
