// Every destination that keeps records itself (tests/conformance/logger_destination_suite.h).
// SPDX-License-Identifier: Apache-2.0
#include "storage/memory_store.h"
#include "tests/conformance/logger_destination_suite.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/remote_uploader.h"
#include "trainer/loggers/run_files.h"
#include "trainer/loggers/table_lines.h"
#include "trainer/loggers/tensorboard_logger.h"

namespace composer {
namespace {

using Destination = std::unique_ptr<LoggerDestination>;

INSTANTIATE_TEST_SUITE_P(InMemory, LoggerDestinationSuite, testing::Values([](const std::string&) -> Destination {
                           return std::make_unique<InMemoryLogger>();
                         }));
INSTANTIATE_TEST_SUITE_P(JsonLines, LoggerDestinationSuite,
                         testing::Values([](const std::string& folder) -> Destination {
                           return JsonLines::Open(JoinPath(folder, "metrics.jsonl")).value();
                         }));
INSTANTIATE_TEST_SUITE_P(TableLines, LoggerDestinationSuite,
                         testing::Values([](const std::string& folder) -> Destination {
                           return std::make_unique<TableLines>(JoinPath(folder, "tables.jsonl"));
                         }));
INSTANTIATE_TEST_SUITE_P(RunFiles, LoggerDestinationSuite,
                         testing::Values([](const std::string& folder) -> Destination {
                           return std::make_unique<RunFiles>(
                               RunFiles::Options{.run_folder = folder, .lists_files = true});
                         }));
INSTANTIATE_TEST_SUITE_P(TensorBoard, LoggerDestinationSuite,
                         testing::Values([](const std::string& folder) -> Destination {
                           return std::make_unique<TensorBoardLogger>(
                               TensorBoardLogger::Options{.folder = JoinPath(folder, "events"), .run_name = "run"});
                         }));
INSTANTIATE_TEST_SUITE_P(RemoteUploader, LoggerDestinationSuite,
                         testing::Values([](const std::string& folder) -> Destination {
                           return std::make_unique<RemoteUploader>(
                               std::make_shared<MemoryStore>(),
                               RemoteUploader::Options{.run_folder = folder,
                                                       .staging_folder = JoinPath(folder, ".uploads"),
                                                       .key_format = "run/{remote_file_name}"});
                         }));

}  // namespace
}  // namespace composer
