// The parts of a simulated job; see simulation.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "launcher/supervise/job_state.h"
#include "rendezvous/failover/succession.h"
#include "rendezvous/membership/coordinator.h"
#include "tests/rendezvous/simulation.h"

namespace composer::simulated {

inline constexpr double kKeepaliveLow = 1.5, kKeepaliveHigh = 2.9;  // seconds until a silent peer is noticed

// One connection of an agent to a server's process. Its two ends learn at different times that it has ended.
struct Stream {
  Coordinator::Session session = 0;
  int agent = 0;
  int life = 0;  // which of the agent's processes
  int server = 0;
  bool agent_end = true;
  bool server_end = true;
  bool introduced = false;                    // its first message has arrived; none overtakes that one
  absl::Time last_up = absl::InfinitePast();  // what either end sends arrives in order
  absl::Time last_down = absl::InfinitePast();
};
using StreamPtr = std::shared_ptr<Stream>;

struct Server {
  std::unique_ptr<Coordinator> coordinator;  // null when there is no process
  bool host_lost = false;
  absl::Time frozen_until = absl::InfinitePast();
  absl::Duration clock_error;
  absl::Time tick_at = absl::InfiniteFuture();
  bool awaits_others = false;  // its launcher has ended but for that
  std::map<Coordinator::Session, StreamPtr> streams;
};

enum class State { kGone, kLooking, kJoining, kRunning, kEnding };

// The workers of an agent's last generation.
struct Workers {
  uint64_t generation = 0;
  std::string world;
  std::vector<bool> alive;
  absl::Time started;
  absl::Time first_exit;
  std::vector<WorkerExit> exits;

  bool AllGone() const { return exits.size() == alive.size(); }
  void End(size_t w, WorkerExit exit, absl::Time now);
};

// An agent is a launcher: its real JobState, with what stands around it (launcher/rendezvous/rendezvous_link and the
// supervisor) in outline.
struct Agent {
  std::string node_id;
  int life = 0;  // counts processes
  State state = State::kGone;
  bool away = false;  // has no stream and looks for a server
  bool wants_join = false;
  StreamPtr stream;
  proto::MembershipRecord record;
  std::string remembered_id;  // as the next process on this host will read them
  proto::MembershipRecord remembered;
  bool served = false;
  absl::Time away_since;
  absl::Time broken_since;  // InfiniteFuture while workers run
  absl::Time refused_since = absl::InfiniteFuture();
  std::optional<proto::FailureCause> untold;
  absl::Time done_since = absl::InfiniteFuture();
  std::optional<JobState> job;
  std::deque<JobEvent> events;  // that wait for the one that is being handled
  bool applying = false;
  Workers workers;
  bool checkpointed = false;                    // see proto::Join
  absl::Time wake_at = absl::InfiniteFuture();  // simulated time
  int server = -1;                              // the last one it was attached to
  proto::Liveness host;                         // of the agent on its host
  absl::Duration clock_error;
  std::vector<absl::Time> shunned_until, cut_until;  // by server
};

using Life = std::pair<int, int>;  // an agent and which of its processes

struct WorldRecord {
  uint64_t generation = 0;
  std::vector<Life> members;  // by node rank
  std::string follows;        // the newest world that a member knew when this one formed, or ""
  int running = 0;
  int run = 0;                  // see Simulation::run_
  std::set<Life> left;          // said farewell: the others continue
  std::set<Life> done;          // have arrived at the barrier
  std::set<int> over;           // servers on which it has ended
  std::optional<int> restarts;  // as its first member counts them
  bool drains = false;
  bool ends = false;  // its workers have agreed on how to end: after a checkpoint, or done
  bool torn = false;  // its workers cannot go on
  bool ran = false;   // on all of its members at the same time
};

enum class Fault {
  kWorkerFails,
  kSpawnerDies,
  kJobIsDone,
  kAgentResets,
  kAgentFallsSilent,
  kAgentLeaves,
  kAgentComes,
  kCut,
  kCutMany,
  kPartition,
  kServerKilled,
  kServerFrozen,
  kClockJumps,
  kAgentClockJumps,
  kHostLost,
  kCount
};
struct PlannedFault {
  absl::Time at;
  Fault kind;
  uint64_t choice;
  double length;  // in [0, 1)
};

inline int SlotsOf(int a) { return 1 + a % 3; }

class Simulation {
 public:
  explicit Simulation(const SimulationOptions& options);
  SimulationResult Run();

 private:
  struct Event {
    absl::Time at;
    int64_t order;
    std::function<void()> run;
    bool operator<(const Event& other) const { return std::tie(other.at, other.order) < std::tie(at, order); }
  };

  // Randomness, time, trace.
  double Uniform(double low, double high) { return std::uniform_real_distribution<>(low, high)(random_); }
  int Pick(int count) { return std::uniform_int_distribution<>(0, count - 1)(random_); }
  void At(absl::Time at, std::function<void()> run) { queue_.push({at, num_events_++, std::move(run)}); }
  void In(double low, double high, std::function<void()> run) {
    At(now_ + absl::Seconds(Uniform(low, high)), std::move(run));
  }
  template <typename... Parts>
  void Note(const Parts&... parts) {
    if (!options_.trace) return;
    result_.trace.push_back(absl::StrCat(
        absl::FormatDuration(absl::Trunc(now_ - absl::UnixEpoch(), absl::Milliseconds(1))), " ", parts...));
  }
  template <typename... Parts>
  void Violate(const Parts&... parts) {
    if (!result_.violation.empty()) return;
    result_.violation = absl::StrCat(parts...);
    Note("VIOLATION: ", result_.violation);
  }

  // Implemented in simulation.cc: the history.
  void Plan();
  void PlanFaults();
  void Make(const PlannedFault& fault);
  void Heal();
  void CheckProgress();
  bool MayProgress() const;

  // Implemented in simulated_launchers.cc.
  void Post(int a, JobEvent event);
  void Apply(int a, JobEvent event);
  WorkerFacts FactsOf(const Agent& agent) const;
  void ShowPhase(int a);
  void ScheduleWake(int a);
  template <typename Action>
  void Do(int /*a*/, const Action&) {}  // nothing that is simulated follows
  void Do(int a, const job_action::Print& print);
  void Do(int a, const job_action::Join& join);
  void Do(int a, const job_action::StartWorkers&);
  void Do(int a, const job_action::Drain& drain);
  void Do(int a, const job_action::EndWorkers&);
  void Do(int a, const job_action::SendSignal& send);
  void Do(int a, const job_action::ReportCause& report);
  void Do(int a, const job_action::LoseWorkers& loss);
  void Do(int a, const job_action::RestartSpawner&);
  void Do(int a, const job_action::ArriveAtBarrier&);
  void Do(int a, const job_action::Repeat& repeat);
  void Do(int a, const job_action::LookForRoom&);
  void Do(int a, const job_action::Conclude& conclude);
  void Do(int a, const job_action::Finish&);
  void DrainWorld(const std::string& id);
  void WaitForOthers(const Life& life, const std::string& id, absl::Time reached);
  void EndSoon(int a, size_t w, double low, double high, const WorkerExit& exit);
  void EndAll(int a, double low, double high, const WorkerExit& exit);
  void FailWorker(int a, bool by_signal);
  void LosePeers(int a);
  void LoseSpawner(int a);
  void Stop(int a, uint64_t how);
  bool MayFinish(int a) const;
  void FinishJob(int a);
  void AwaitOthers(int s, absl::Time until);
  void EndHost(int a);

  // Implemented in simulated_agents.cc.
  void Launch(int a);
  void Kill(int a, bool silent);
  void Leave(int a, bool done);
  void LoseStream(int a);
  void Look(int a, int life);
  void AttachTo(int a, int s);
  void SendJoin(int a);
  void Send(const StreamPtr& stream, proto::NodeMessage message);
  void Receive(const StreamPtr& stream, const proto::CoordinatorMessage& message);
  void Refuse(const StreamPtr& stream, const proto::Refusal& refusal);
  void SetState(Agent& agent, State state);
  void Believe(int a, const proto::MembershipRecord& record);
  void Forget(Agent& agent);
  std::pair<int, uint64_t> NumberOf(const proto::MembershipRecord& record) const;
  void Remember(Agent& agent) const;
  void Cut(int a, int s, absl::Duration length);
  void Part(uint64_t sides, absl::Duration length);
  bool IsCut(int a, int s) const { return now_ < agents_[a].cut_until[s] || servers_[s].host_lost; }
  bool Reaches(int a, const proto::Liveness& life) const;
  bool HostIsLost(int a) const { return hosted_ && a < num_servers_ && servers_[a].host_lost; }

  // Implemented in simulated_servers.cc.
  void StartServer(int s, bool again);
  void KillServer(int s, absl::Duration away);
  void Freeze(int s, absl::Duration length);
  void JumpClock(int s, absl::Duration length);
  void LoseHost(int s);
  void Arrive(const StreamPtr& stream, const proto::NodeMessage& message);
  void BreakServerEnd(const StreamPtr& stream);
  void Deliver(int s, const Coordinator::Outcome& outcome);
  void ScheduleTick(int s);
  absl::Time ClockOfAgent(int a) const { return now_ + agents_[a].clock_error; }
  absl::Time ClockOf(int s) const { return now_ + servers_[s].clock_error; }

  // Implemented in simulation_checks.cc.
  void CheckFormed(int s, const Coordinator::Outcome& outcome);
  void CheckOrder(const WorldRecord& world, int s);
  void CheckQuorum(const WorldRecord& world, int s);
  bool Remembers(int life, const Life& earlier) const;
  void CheckBelief(int a, const proto::World& world);
  void CheckRuns(const std::string& id);
  void CheckTally(int a);
  void CheckEnd(int a, int code);
  void ExpectDone(int a);
  void Disturb(absl::Duration length);
  bool IsCalm() const { return now_ >= calm_from_; }
  void ExpectEndAfterDeath(int a);
  void ExpectNoEndAfterCut(int a, int s, absl::Duration length);
  bool AllRun(const WorldRecord& world) const;
  bool IsAlive(const Life& life) const;
  const Agent* AgentBehind(const Life& life, int s) const;

  const SimulationOptions options_;
  std::mt19937_64 random_;
  SimulationResult result_;
  absl::Time now_, end_;
  std::priority_queue<Event> queue_;
  int64_t num_events_ = 0;

  MembershipPolicy policy_;
  int max_restarts_ = 0;
  bool job_ends_ = false;
  int num_servers_ = 1;
  bool list_ = false;    // several hosts may serve
  bool hosted_ = false;  // servers are run by the agents with the same index
  bool given_ranks_ = false;
  bool lone_cuts_ = false;  // a lone server's network is cut, but its process is not killed
  std::vector<Server> servers_;
  std::vector<Agent> agents_;
  std::vector<PlannedFault> faults_;
  std::vector<std::pair<uint64_t, absl::Time>> partitions_;  // sides, and until when
  absl::Time calm_from_ = absl::InfinitePast();              // no fault's effect lasts beyond this
  int num_disturbances_ = 0;
  Coordinator::Session last_session_ = 0;
  int num_processes_ = 0;
  std::map<std::string, WorldRecord> worlds_;  // by id
  int run_ = 0;                                // all have left a world in good order so often
  // Live processes, by run, generation and world.
  std::map<std::pair<int, uint64_t>, std::map<std::string, int>> believers_;
  std::map<Life, int> ended_;                          // exit codes of launchers that ended by themselves
  std::set<Life> left_;                                // said farewell
  std::set<Life> heard_to_leave_;                      // by their server
  std::map<std::pair<std::string, int>, Life> seats_;  // who believes that it has a node rank of a world
};

}  // namespace composer::simulated
