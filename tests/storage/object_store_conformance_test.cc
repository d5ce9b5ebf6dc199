// SPDX-License-Identifier: Apache-2.0
#include "storage/local_store.h"
#include "storage/memory_store.h"
#include "tests/conformance/object_store_suite.h"
#include "tests/support/fault_store.h"
#include "tests/support/power_cut_disk.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

// Keeps what the store needs alive as long as the store.
template <typename Owner, typename Store>
std::shared_ptr<ObjectStore> Keep(std::shared_ptr<Owner> owner, Store* store) {
  return {store, [owner](ObjectStore* doomed) { delete doomed; }};
}

INSTANTIATE_TEST_SUITE_P(Memory, ObjectStoreSuite, testing::Values([] { return std::make_shared<MemoryStore>(); }));
INSTANTIATE_TEST_SUITE_P(Local, ObjectStoreSuite, testing::Values([] {
                           const auto folder = std::make_shared<TempDir>();
                           return Keep(folder, new LocalStore(folder->Path("not/yet/there")));
                         }));
INSTANTIATE_TEST_SUITE_P(SimulatedDisk, ObjectStoreSuite, testing::Values([] {
                           const auto disk = std::make_shared<PowerCutDisk>();
                           return Keep(disk, new LocalStore("/data/checkpoints", *disk));
                         }));
INSTANTIATE_TEST_SUITE_P(FaultFree, ObjectStoreSuite, testing::Values([] {
                           const auto memory = std::make_shared<MemoryStore>();
                           return Keep(memory, new FaultStore(*memory));
                         }));

}  // namespace
}  // namespace composer
