// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/job_security.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "launcher/rendezvous/token_file.h"

namespace composer {
namespace {

bool HasTls(const TlsFiles& files) {
  return !files.certificate.empty() || !files.key.empty() || !files.authority.empty();
}

absl::Status CheckFlags(const SecurityFlags& flags) {
  const TlsFiles& tls = flags.tls;
  if (HasTls(tls) && (tls.certificate.empty() || tls.key.empty() || tls.authority.empty())) {
    return absl::InvalidArgumentError("--tls-cert, --tls-key and --tls-ca are given all together or not at all");
  }
  if (!tls.server_name.empty() && !HasTls(tls)) {
    return absl::InvalidArgumentError("--tls-server-name needs --tls-cert, --tls-key and --tls-ca");
  }
  if (flags.insecure && (HasTls(tls) || !flags.token_file.empty())) {
    return absl::InvalidArgumentError("--insecure takes no token and no certificate: leave one of them out");
  }
  return absl::OkStatus();
}

std::string UserTokenPath(const Environment& environment) {
  if (const std::string config = environment.GetOr("XDG_CONFIG_HOME", ""); !config.empty()) {
    return absl::StrCat(config, "/composer/token");
  }
  const std::string home = environment.GetOr("HOME", "");
  return home.empty() ? "" : absl::StrCat(home, "/.config/composer/token");
}

constexpr char kGiveOne[] =
    "set COMPOSER_TOKEN (or --token-file) to the same secret on every node, `openssl rand -hex 32` "
    "makes one; or --insecure to go without";

absl::Status UseUserToken(const Environment& environment, JobSecurity& security) {
  const std::string path = UserTokenPath(environment);
  if (path.empty())
    return absl::InvalidArgumentError(absl::StrCat("the nodes of this job do not share a secret: ", kGiveOne));
  const absl::StatusOr<std::string> token = ReadOrMakeToken(path);
  if (!token.ok()) return absl::InvalidArgumentError(absl::StrCat(token.status().message(), "; ", kGiveOne));
  security.token = *token;
  security.origin = absl::StrCat(path, " (the nodes share it when they share that folder; else ", kGiveOne, ")");
  if (const std::string job = environment.GetOr("SLURM_JOB_ID", ""); !job.empty()) {
    absl::StrAppend(&security.token, " slurm ", environment.GetOr("SLURM_CLUSTER_NAME", ""), " ", job);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<JobSecurity> ChooseSecurity(const SecurityFlags& flags, const Environment& environment,
                                           bool several_nodes) {
  const std::string variable = environment.GetOr(kTokenVariable, "");
  RETURN_IF_ERROR(CheckFlags(flags));
  JobSecurity security;
  security.insecure = flags.insecure;
  if (flags.insecure) return security;
  security.tls = flags.tls;
  if (!flags.token_file.empty()) {
    ASSIGN_OR_RETURN(security.token, ReadToken(flags.token_file));
    security.origin = absl::StrCat("--token-file ", flags.token_file);
  } else if (!variable.empty()) {
    security.token = variable;
    security.origin = kTokenVariable;
  } else if (several_nodes && !HasTls(flags.tls)) {
    RETURN_IF_ERROR(UseUserToken(environment, security));
  }
  if (!security.token.empty() && security.token.size() < kMinTokenBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the token of ", security.origin, " has ", security.token.size(),
                                                   " bytes, it must have at least ", kMinTokenBytes,
                                                   "; `openssl rand -hex 32` makes a good one"));
  }
  return security;
}

absl::StatusOr<Credentials> MakeCredentials(const JobSecurity& security) {
  if (HasTls(security.tls)) return Credentials::FromFiles(security.tls, security.token, absl::Now());
  if (!security.token.empty()) return Credentials::FromToken(security.token, security.origin, absl::Now());
  return Credentials();
}

std::vector<std::string> SecurityArguments(const JobSecurity& security) {
  if (security.insecure) return {"--insecure"};
  if (!HasTls(security.tls)) return {};
  std::vector<std::string> result = {absl::StrCat("--tls-cert=", security.tls.certificate),
                                     absl::StrCat("--tls-key=", security.tls.key),
                                     absl::StrCat("--tls-ca=", security.tls.authority)};
  if (!security.tls.server_name.empty()) result.push_back(absl::StrCat("--tls-server-name=", security.tls.server_name));
  return result;
}

void PassToken(const JobSecurity& security, Environment& environment) {
  for (const char* name : {"COMPOSER_TOKEN_FILE", "COMPOSER_INSECURE"}) environment.Remove(name);
  environment.Remove(kTokenVariable);
  if (!security.token.empty()) environment.Set(kTokenVariable, security.token);
}

}  // namespace composer
