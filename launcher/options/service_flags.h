// Flags of every command that serves or connects: who may take part, and which ports show the job.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/options.h"
#include "rendezvous/transport/credentials.h"

namespace composer {

struct SecurityFlags {
  bool insecure = false;
  std::string token_file;
  TlsFiles tls;
};

// Returns the table entries of `flags`.
std::vector<Option> SecurityOptions(SecurityFlags* flags);

struct ControlPlaneFlags {
  int http_port = -1;  // -1 means none, 0 any free one
  std::string http_address = "127.0.0.1";
  int control_port = -1;  // as http_port
  std::string control_address = "127.0.0.1";
};

// Returns the table entries of `flags`.
std::vector<Option> ControlPlaneOptions(ControlPlaneFlags* flags);

}  // namespace composer
