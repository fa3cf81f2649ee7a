#include "python/csrc/metrics_server.h"

#include <pthread.h>
#include <signal.h>

#include <stdexcept>
#include <utility>

#include "atp/collective/waits/late_ranks.h"
#include "atp/driver/http/own_host.h"
#include "atp/driver/udp/address.h"

namespace atp::pytorch {
namespace {

constexpr int kInternalError = 500;

HttpPage page_of(const std::function<std::string()>& text) {
  try {
    return {.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text()};
  } catch (const std::exception& error) {
    return {.content_type = "text/plain",
            .body = error.what() + std::string("\n"),
            .status = kInternalError};
  }
}

// A thread inherits the mask of the one that makes it, and signals belong to the program.
Result<std::unique_ptr<HttpService>> start_without_signals(const Endpoint& at,
                                                           HttpService::Owner owner) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  auto service = HttpService::start(at, std::move(owner));
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return service;
}

}  // namespace

MetricsServer::MetricsServer(const std::string& at, const std::vector<std::string>& names,
                             std::function<std::string()> text) {
  const Result<Endpoint> endpoint = resolve_endpoint(at);
  if (!endpoint) throw std::runtime_error(endpoint.error().message);
  auto started = start_without_signals(
      endpoint.value(),
      {.page = [text = std::move(text)](const std::string& path) -> std::optional<HttpPage> {
         if (path != "/metrics") return std::nullopt;
         return page_of(text);
       },
       .names = own_names(names, at),
       .tell = [](const std::string& line) { tell_on_stderr(line); }});
  if (!started) throw std::runtime_error(started.error().message);
  service_ = std::move(started).value();
  closed_in_child_.emplace(std::vector<int>{service_->listener()});
}

std::string MetricsServer::address() const {
  return service_ == nullptr ? "" : to_string(service_->address());
}

void MetricsServer::stop() {
  // A forked child has no such thread to wait for.
  if (owner_ != getpid()) static_cast<void>(service_.release());
  closed_in_child_.reset();
  service_.reset();
}

}  // namespace atp::pytorch
