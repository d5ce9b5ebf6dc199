// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/service_flags.h"

namespace composer {

std::vector<Option> SecurityOptions(SecurityFlags* flags) {
  return {
      {.name = "token-file",
       .environment = {"COMPOSER_TOKEN_FILE"},
       .metavar = "FILE",
       .help = "the job's secret, the same on every node",
       .fallback = "COMPOSER_TOKEN, else your own when there are several nodes",
       .set = IntoString(&flags->token_file)},
      {.name = "tls-cert",
       .environment = {"COMPOSER_TLS_CERT"},
       .metavar = "FILE",
       .help = "this node's certificate (PEM), with --tls-key and --tls-ca",
       .fallback = "made from the token",
       .set = IntoString(&flags->tls.certificate)},
      {.name = "tls-key",
       .environment = {"COMPOSER_TLS_KEY"},
       .metavar = "FILE",
       .help = "its private key",
       .fallback = "made from the token",
       .set = IntoString(&flags->tls.key)},
      {.name = "tls-ca",
       .environment = {"COMPOSER_TLS_CA"},
       .metavar = "FILE",
       .help = "whose certificates to trust",
       .fallback = "made from the token",
       .set = IntoString(&flags->tls.authority)},
      {.name = "tls-server-name",
       .environment = {"COMPOSER_TLS_SERVER_NAME"},
       .metavar = "NAME",
       .help = "the name in the rendezvous's certificate",
       .fallback = "the address",
       .set = IntoString(&flags->tls.server_name)},
      {.name = "insecure",
       .environment = {"COMPOSER_INSECURE"},
       .help = "several nodes without any secret: whoever reaches the port is in",
       .set = IntoBool(&flags->insecure)},
  };
}

std::vector<Option> ControlPlaneOptions(ControlPlaneFlags* flags) {
  return {
      {.name = "http-port",
       .environment = {"COMPOSER_HTTP_PORT"},
       .metavar = "PORT",
       .help = "serve /metrics (Prometheus) and /status (JSON); 0: any free port",
       .fallback = "off",
       .set = IntoInt(&flags->http_port, 0, 65535)},
      {.name = "http-address",
       .environment = {"COMPOSER_HTTP_ADDRESS"},
       .metavar = "ADDRESS",
       .help = "address of --http-port",
       .fallback = flags->http_address,
       .set = IntoString(&flags->http_address)},
      {.name = "control-port",
       .environment = {"COMPOSER_CONTROL_PORT"},
       .metavar = "PORT",
       .help = "take `composer status --at` and its like over TCP; 0: any free port",
       .fallback = "off",
       .set = IntoInt(&flags->control_port, 0, 65535)},
      {.name = "control-address",
       .environment = {"COMPOSER_CONTROL_ADDRESS"},
       .metavar = "ADDRESS",
       .help = "address of --control-port",
       .fallback = flags->control_address,
       .set = IntoString(&flags->control_address)},
  };
}

}  // namespace composer
