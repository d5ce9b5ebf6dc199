// Simulates a job's membership: hosts that serve, agents (launchers) on them, and the network between them, on a
// simulated clock. One seed is one history. Coordinators, the succession and each launcher's JobState are the real
// ones; around them an agent does what rendezvous/client, launcher/rendezvous_link and the supervisor do, without
// threads, sockets and processes.
//
// What can happen: agents come late, die (their connection resets, or they fall silent), come back as new processes,
// and are told to stop; workers fail, do not listen or are hard to kill, and the job is done; spawners die; networks
// are cut and healed; coordinators are killed and started again, frozen, lost with their host, or served by the next
// host of the list; clocks jump; messages to a coordinator are delayed, and come twice.
//
// What must hold, checked throughout:
//   one world a generation   no two processes ever consider two worlds with the same number the newest (until all nodes
//                            have left in good order and the job is started again); an agent gets no world whose number
//                            is not above all that it has heard of
//   one coherent world       no two worlds run on all of their members at one time; one that left in good order is not
//                            missed, unless no list is given, nobody heard its farewell and a successor has come
//   no fork                  with a list, of the worlds that follow one world, at most one ever runs (until all nodes
//                            have left in good order, too)
//   ranks                    0 … n-1, each once, no node twice, base ranks add up; survivors keep their order; no two
//                            processes ever believe that they have the same rank of the same world
//   quorum                   with a list, more than half of the last world that a member of the new one has heard of is
//                            connected to the server that forms it (half, with node rank 0), or the new one has all
//                            agents that exist, each with a given rank; of a first world, more than half of max_nodes
//                            (half, at the first of the list)
//   a lost node is noticed   one that dies, with nothing else going on, ends its world within 4 s
//   a blip ends nothing      nor does a node that is cut off from its server, but not from others, for less than `blip`
//   one tally                the nodes of a world count the job's restarts alike
//   done is done             when the workers of a world end with 0 and nothing else goes on, its launchers end with 0,
//                            and so do those that wait beside it, without a world of their own
//   exit codes               a launcher ends by itself only with those that its history explains
//   sizes                    min_nodes <= n <= max_nodes
//   progress                 when faults stop and enough nodes are there, a world runs
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace composer {

struct SimulationOptions {
  uint64_t seed = 1;
  int max_agents = 12;        // 1 to this many, depending on the seed
  int num_faults = 25;        // at most, depending on the seed
  bool exact_agents = false;  // exactly max_agents
  bool trace = false;
  std::set<int> skipped;  // faults of the seed's plan that are left out
};

struct SimulationResult {
  std::string violation;           // empty when everything held
  std::vector<std::string> trace;  // what happened, one line per event
  int num_faults = 0;
  int num_worlds = 0;
  int64_t num_messages = 0;
};

SimulationResult Simulate(const SimulationOptions& options);

// Reduces a failing seed to as few of its faults as still fail, and returns that history.
SimulationResult Shorten(const SimulationOptions& options);

}  // namespace composer
