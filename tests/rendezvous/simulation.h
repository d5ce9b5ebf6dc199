// A job's membership simulated: hosts that serve, agents (launchers) on them, and the network between, on a clock of its
// own; one seed is one history. Coordinators and the succession are the real ones; an agent is what rendezvous/client and
// launcher/rendezvous_link do, without threads and sockets.
//
// What can happen: agents come late, die (their connection resets, or they fall silent), come back as new processes,
// leave; workers fail; networks are cut and healed; coordinators are killed and started again, frozen, lost with their
// host, served by the next host of the list; clocks jump; messages to a coordinator are doubled, delayed and overtake each
// other.
//
// What must hold, checked all along:
//   one world a generation   no two processes ever hold two worlds with one number for the newest; an agent gets no world
//                            with a number that is not above all that it has heard of
//   one coherent world       no two worlds run on all of their members at one time; one that left in good order is not
//                            missed, unless no list is given, nobody heard its farewell and a successor has come
//   no fork                  in a list, of the worlds that follow one world, at most one ever runs
//   ranks                    0 … n-1, each once, no node twice, base ranks add up; survivors keep their order; no two
//                            processes ever believe to have one rank of one world
//   quorum                   in a list, more than half of the last world that a member of the new one has heard of is
//                            connected to the server that forms it (half, with node rank 0), or the new one has all
//                            agents there are, each with a rank it was given; of a first world, more
//                            than half of max_nodes (half, at the first of the list)
//   a lost node is noticed   one that dies, with nothing else going on, ends its world within 4 s
//   a blip ends nothing      nor does a node that is cut off from its server, and not from others, for less than `blip`
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
  int max_agents = 12;        // 1 to this many, by seed
  int num_faults = 25;        // at most, by seed
  bool exact_agents = false;  // it is max_agents
  bool trace = false;
  std::set<int> skipped;  // faults of the seed's plan that are left out
};

struct SimulationResult {
  std::string violation;           // empty: all held
  std::vector<std::string> trace;  // what happened, one line an event
  int num_faults = 0;
  int num_worlds = 0;
  int64_t num_messages = 0;
};

SimulationResult Simulate(const SimulationOptions& options);

// A failing seed with as few of its faults as it takes, and the history of that.
SimulationResult Shorten(const SimulationOptions& options);

}  // namespace composer
