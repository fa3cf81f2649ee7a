#include "atp/base/variable_names.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <span>
#include <string_view>

#include "atp/base/nearest_name.h"

namespace atp {
namespace {

TEST(MisspeltVariables, AreNamedWithTheNearestRightOne) {
  struct Case {
    const char* what;
    const char* setting;
    const char* complaint;
  };
  const Case cases[] = {
      {"a missing letter", "ATP_ALGORITM=ring",
       "ATP_ALGORITM is unknown; did you mean ATP_ALGORITHM?"},
      {"two letters swapped", "ATP_ROTUE=10.0.0.9:5500",
       "ATP_ROTUE is unknown; did you mean ATP_ROUTE?"},
      {"another form of the word", "ATP_TIME_OUT=5",
       "ATP_TIME_OUT is unknown; did you mean ATP_TIMEOUT?"},
      {"a plural", "ATP_JOBS=5", "ATP_JOBS is unknown; did you mean ATP_JOB?"},
      {"no value", "ATP_DIGET=", "ATP_DIGET is unknown; did you mean ATP_DIGEST?"},
      {"a right name", "ATP_ROUTE=10.0.0.9:5500", ""},
      {"a name that is another's beginning", "ATP_DIGEST=1", ""},
      {"Kubernetes' for a service called atp", "ATP_PORT=tcp://10.0.0.9:5500", ""},
      {"Kubernetes' for the service's host", "ATP_SERVICE_HOST=10.0.0.9", ""},
      {"Kubernetes' for a service called atp-server", "ATP_SERVER_PORT=tcp://10.0.0.9:5500", ""},
      {"the build folder of our tests", "ATP_BUILD=build/dev", ""},
      {"a variable of our tests", "ATP_ALL_TESTS=1", ""},
      {"a switch of our tests", "ATP_WRITE_COSTS=1", ""},
      {"another switch of our tests", "ATP_WRITE_DOCS=1", ""},
      {"the name of a service's options", "ATP_SWITCH_OPTIONS=--lanes 2", ""},
      {"another program's", "OMP_NUM_THREADS=1", ""},
      {"nothing but the prefix", "ATP_=1", ""},
      {"a value that looks like a name", "PATH=ATP_ROTUE", ""},
  };
  for (const Case& c : cases) {
    const char* const environment[] = {"HOME=/", c.setting, nullptr};
    const std::vector<std::string> found = misspelt_variables(environment);
    ASSERT_EQ(found.size(), *c.complaint == '\0' ? 0u : 1u) << c.what;
    EXPECT_EQ(found.empty() ? "" : found.front(), c.complaint) << c.what;
  }
}

TEST(MisspeltVariables, AreEachNamed) {
  const char* const environment[] = {"ATP_ROTUE=a", "ATP_EXACTT=1", nullptr};
  EXPECT_EQ(misspelt_variables(environment).size(), 2u);
}

TEST(MisspeltVariables, AreNamedOnceByOneRankPerHostAndNotAfterAtpRun) {
  setenv("ATP_ROTUE", "10.0.0.9:5500", 1);
  setenv("LOCAL_RANK", "1", 1);
  EXPECT_TRUE(untold_misspelt_variables().empty()) << "another rank of the host speaks";
  setenv("LOCAL_RANK", "0", 1);
  setenv("ATP_WILLS", "/tmp", 1);
  EXPECT_TRUE(untold_misspelt_variables().empty()) << "atp run has spoken";
  unsetenv("ATP_WILLS");
  EXPECT_EQ(untold_misspelt_variables().size(), 1u);
  EXPECT_TRUE(untold_misspelt_variables().empty()) << "said before";
  unsetenv("LOCAL_RANK");
  unsetenv("ATP_ROTUE");
}

TEST(NearestName, OfNoLettersIsOneOfASingleLetter) {
  const std::string_view known[] = {"ab", "n"};
  EXPECT_EQ(nearest_name("", known), "n");
  EXPECT_EQ(nearest_name("", std::span(known, 1)), "");
}

}  // namespace
}  // namespace atp
