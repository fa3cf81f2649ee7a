#include "atp/cli/view/view_command.h"

#include <fmt/core.h>

#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "atp/cli/command/log.h"
#include "atp/cli/node/serve.h"
#include "atp/cli/view/cluster_view.h"
#include "atp/cli/view/questions.h"
#include "atp/cli/view/view_json.h"
#include "atp/cli/view/view_service.h"
#include "atp/cli/view/view_site.h"
#include "atp/cli/view/watch.h"
#include "atp/driver/http/own_host.h"
#include "atp/driver/udp/address.h"
#include "atp/driver/udp/waker.h"

namespace atp {
namespace {

constexpr const char* kViewExamples = R"(Examples:
  atp view /etc/atp/cluster.yaml
      show the cluster live at http://127.0.0.1:5580/: problems, tree, jobs, ranks, events
  ssh -L 5580:127.0.0.1:5580 ops1 atp view /etc/atp/cluster.yaml
      do the same on host ops1, for the browser on this machine
  atp view 127.0.0.1:5501 127.0.0.1:5500
      show two nodes, without a cluster file
  atp run --cluster cluster.yaml --host a0 --status-from 10.0.7.0/24
      allow queries from that network; by default a node answers only its own host)";

// Short enough for the page to name a frozen node within two seconds.
constexpr std::chrono::milliseconds kPatience{1500};
// Answers that come no later than this are in the view of their own round.
constexpr std::chrono::milliseconds kRound{300};

struct ViewOptions {
  std::vector<std::string> nodes;
  std::string listen = "127.0.0.1:5580";
  double interval_s = 1;
  std::vector<std::string> host_names;
};

std::unique_ptr<ViewService> start_service(const ViewOptions& options) {
  const Result<Endpoint> at = resolve_endpoint(options.listen);
  if (!at) throw CommandError("--listen " + at.error().message, kWrongUsage);
  auto service = ViewService::start(at.value(), own_names(options.host_names, options.listen));
  if (!service) {
    throw CommandError(fmt::format("--listen {}: {}", options.listen, service.error().message));
  }
  if (!is_loopback(at.value())) {
    log_warning(
        "anyone who can reach {} can see which jobs run where; with 127.0.0.1 only this host could",
        options.listen);
  }
  return std::move(service).value();
}

std::vector<Endpoint> endpoints_of(const ViewSite& site) {
  std::vector<Endpoint> endpoints;
  endpoints.reserve(site.nodes.size());
  for (const ViewNode& node : site.nodes) endpoints.push_back(node.endpoint);
  return endpoints;
}

// Asks, looks, and shows, until a signal arrives.
void watch_site(const ViewSite& site, ViewService& service, double interval_s) {
  const auto waker = Waker::create();
  if (!waker) throw CommandError(waker.error().message);
  const StopSignals stop_signals(*waker.value());
  std::vector<NodeRecord> records(site.nodes.size());
  Questions questions(endpoints_of(site), kPatience, [&](std::size_t node, NodeAnswer answer) {
    records[node].take(std::move(answer), seconds_since_1970());
  });
  Watch watch;
  const std::chrono::nanoseconds interval(static_cast<std::int64_t>(interval_s * 1e9));
  const int stop_fd = waker.value()->fd();
  for (SteadyTime begin = std::chrono::steady_clock::now(); !waker.value()->stopped();) {
    questions.ask();
    questions.wait_for_answers(begin + std::min<std::chrono::nanoseconds>(interval, kRound),
                               stop_fd);
    watch.take(make_cluster_view(site, records, watch.view(), seconds_since_1970()));
    service.show(view_json(site.name, watch, interval_s));
    begin = std::max(begin + interval, std::chrono::steady_clock::now());
    questions.wait(begin, stop_fd);
  }
}

void run_view(const ViewOptions& options) {
  outlive_readers();
  const ViewSite site = value_or_throw(view_site(options.nodes));
  const auto service = start_service(options);
  fmt::print("atp view of {} at http://{}/\n", site.name, to_string(service->address()));
  std::fflush(stdout);
  watch_site(site, *service, options.interval_s);
}

}  // namespace

void add_view_command(const Command& program) {
  const Command command =
      program.add_command("view", "Show a cluster live in a browser: problems, tree and jobs");
  command.footer(kViewExamples);
  const auto options = std::make_shared<ViewOptions>();
  command
      .add_option("nodes", options->nodes,
                  "A cluster file, or the addresses of switches and servers")
      .type_name("FILE|HOST:PORT")
      .required();
  command
      .add_option("--listen", options->listen,
                  "TCP address at which to serve the page, over HTTP; port 0 picks a free port")
      .type_name("ADDR:PORT")
      .show_default();
  command.add_option("--interval", options->interval_s, "Seconds between queries of a node")
      .type_name("SEC")
      .number_between(0.1, 3600)
      .show_default();
  command
      .add_option("--host-name", options->host_names,
                  "Also answer requests for this host name (default: addresses, "
                  "localhost and this host's name)")
      .type_name("NAME");
  command.callback([options] { run_view(*options); });
}

}  // namespace atp
