// Setters for the forms that only launchers know; those of every program are in base/options.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/options.h"
#include "launcher/options/launch_options.h"

namespace composer {

// Accepts a number of workers, or auto, cpu, gpu.
OptionSetter IntoWorkers(std::string* target);
// Accepts "0,2".
OptionSetter IntoLocalRanks(std::vector<int>* target);
// Accepts "key=value,key=value".
OptionSetter IntoConf(std::map<std::string, std::string>* target);
// Accepts N or MIN:MAX.
OptionSetter IntoNodes(int* min, int* max);
// Accepts 0 to 30 days.
OptionSetter IntoSeconds(double* target);
// Accepts the text of contract/startup_limits.h.
OptionSetter IntoStartupLimits(std::string* target);
OptionSetter IntoStreams(StreamChoice* target);
// Accepts a name of printable characters.
OptionSetter IntoNodeGroup(std::string* target);

}  // namespace composer
