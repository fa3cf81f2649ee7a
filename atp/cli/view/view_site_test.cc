#include "atp/cli/view/view_site.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "atp/config/site/site_reader.h"

namespace atp {
namespace {

constexpr const char* kTwoRacks = R"(
name: two racks
racks:
  - name: a
    uplink: core
    switch: a0
    hosts: [{name: a0, address: 10.0.1.10}, {name: a1, address: 10.0.1.11}]
  - name: b
    uplink: core
    switch: {host: b0, port: 6000}
    hosts: [{name: b0, address: 10.0.2.10}, {name: b1, address: 10.0.2.11}]
  - name: s
    uplink: core
    switch: s0
    hosts: [{name: s0, address: 10.0.3.10}, {name: s1, address: 10.0.3.11}, {name: s2, address: 10.0.3.12}]
servers: [s1, s2]
)";

std::vector<std::string> links_of(const ViewSite& site) {
  std::vector<std::string> texts;
  texts.reserve(site.links.size());
  for (const auto& [from, to] : site.links) {
    texts.push_back(site.nodes[from].name + " > " + site.nodes[to].name);
  }
  return texts;
}

TEST(ViewSite, HasTheSwitchesAndServersOfAClusterFileAndTheirLinks) {
  const ViewSite site = view_site_of(parse_site(kTwoRacks, "file").value());
  std::vector<std::string> names;
  names.reserve(site.nodes.size());
  for (const ViewNode& node : site.nodes) names.push_back(node.name + " " + node.address);
  EXPECT_THAT(names, testing::ElementsAre("server-s1 10.0.3.11:5500", "server-s2 10.0.3.12:5500",
                                          "switch-a 10.0.1.10:5501", "switch-b 10.0.2.10:6000",
                                          "switch-s 10.0.3.10:5501"));
  EXPECT_THAT(links_of(site),
              testing::UnorderedElementsAre("switch-a > switch-s", "switch-b > switch-s",
                                            "switch-s > server-s1", "switch-s > server-s2"));
}

TEST(ViewSite, HasANodeForEachLane) {
  const ViewSite site =
      view_site_of(parse_site(std::string("lanes: 2\n") + kTwoRacks, "file").value());
  EXPECT_EQ(site.nodes.size(), 10u);
  EXPECT_EQ(site.nodes[1].name, "server-s1.1");
  EXPECT_EQ(site.nodes[1].address, "10.0.3.11:5501");
  EXPECT_THAT(links_of(site), testing::Contains("switch-a.1 > switch-s.1"));
  EXPECT_THAT(links_of(site), testing::Not(testing::Contains("switch-a.1 > switch-s.0")));
}

TEST(ViewSite, TakesAddressesAndRangesOfLanes) {
  const ViewSite site =
      view_site({"127.0.0.1:5501-5502", "127.0.0.1:5500", "127.0.0.1:5500"}).value();
  ASSERT_EQ(site.nodes.size(), 3u) << "each once";
  EXPECT_EQ(site.nodes[1].name, "127.0.0.1:5502");
  EXPECT_EQ(site.nodes[1].role, "") << "it will say so";
}

TEST(ViewSite, RefusesAnyOtherText) {
  struct Case {
    std::vector<std::string> words;
    const char* complaint;
  };
  const Case cases[] = {
      {{"no-such-file.yaml"}, "no-such-file.yaml"},
      {{"127.0.0.1:5500", "cluster.yaml"}, "'cluster.yaml' is not HOST:PORT"},
      {{"127.0.0.1:70000"}, "70000"},
      {{"127.0.0.1:0"}, "127.0.0.1:0"},
  };
  for (const Case& c : cases) {
    const Result<ViewSite> site = view_site(c.words);
    ASSERT_FALSE(site) << c.complaint;
    EXPECT_THAT(site.error().message, testing::HasSubstr(c.complaint));
  }
}

}  // namespace
}  // namespace atp
