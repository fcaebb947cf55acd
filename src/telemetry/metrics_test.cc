#include "telemetry/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace isotope::telemetry {
namespace {

constexpr std::string_view kReasons[] = {"stop", "length"};
constexpr double kBuckets[] = {0.001, 1, 20};
constexpr Row kRows[] = {
    {"t:running", Kind::gauge, "Running."},
    {"t:done", Kind::counter, "Done.", "reason", kReasons},
    {"t:latency", Kind::histogram, "Latency.", {}, {}, kBuckets},
    {"t:plain", Kind::counter, "Plain.", {}, {}, {}, false},
};

TEST(Metrics, TextHasEverySeries) {
  Registry r(kRows, {{"model_name", "a\"b\\c\nd"}});
  r.set(0, 2.5);
  r.add(1, 3, 1);
  r.observe(2, 1);
  r.observe(2, 0.5);
  r.observe(2, 100);
  r.add(3);
  const std::string L = "model_name=\"a\\\"b\\\\c\\nd\"";
  EXPECT_EQ(r.prometheus(), "# HELP t:running Running.\n# TYPE t:running gauge\nt:running{" + L +
                                "} 2.5\n"
                                "# HELP t:done_total Done.\n# TYPE t:done_total counter\n"
                                "t:done_total{" +
                                L + ",reason=\"stop\"} 0.0\nt:done_total{" + L +
                                ",reason=\"length\"} 3.0\n"
                                "# HELP t:latency Latency.\n# TYPE t:latency histogram\n"
                                "t:latency_bucket{" +
                                L + ",le=\"0.001\"} 0.0\nt:latency_bucket{" + L +
                                ",le=\"1.0\"} 2.0\n"
                                "t:latency_bucket{" +
                                L + ",le=\"20.0\"} 2.0\nt:latency_bucket{" + L +
                                ",le=\"+Inf\"} 3.0\n"
                                "t:latency_sum{" +
                                L + "} 101.5\nt:latency_count{" + L +
                                "} 3.0\n"
                                "# HELP t:plain_total Plain.\n# TYPE t:plain_total counter\nt:plain_total 1.0\n");
}

TEST(Metrics, CountersNeverFallAndNothingIsNan) {
  Registry r(kRows, {});
  r.add(3, 5);
  r.add(3, -7);
  r.add(3, std::numeric_limits<double>::quiet_NaN());
  r.observe(2, std::numeric_limits<double>::quiet_NaN());
  r.observe(2, -1);
  EXPECT_EQ(r.value(3), 5);
  EXPECT_EQ(r.value(2), 1);
}

TEST(Metrics, Numbers) {
  const std::pair<double, const char*> cases[] = {{0, "0.0"},         {1e21, "1e+21"},     {0.1, "0.1"}, {-3, "-3.0"},
                                                  {INFINITY, "+Inf"}, {-INFINITY, "-Inf"}, {NAN, "NaN"}};
  for (const auto& [v, text] : cases) EXPECT_EQ(number_text(v), text);
}

}  // namespace
}  // namespace isotope::telemetry
