#include "bench_serve_plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

namespace isotope::app {
namespace {

constexpr double kWidth = 560, kHeight = 320, kLeft = 60, kTop = 40, kGap = 90;
constexpr const char* kWait = "#9ecae1";
constexpr const char* kTokens = "#3182bd";
constexpr const char* kFailed = "#de2d26";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '<' || c == '>' || c == '&') {
      out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : "&amp;";
    } else if (static_cast<unsigned char>(c) >= ' ') {
      out += c;
    }
  }
  return out;
}

/// 1, 2 or 5 times a power of ten, so that at most about eight ticks fit.
double tick(double most) {
  const double rough = std::max(most, 1e-9) / 6, power = std::pow(10, std::floor(std::log10(rough)));
  for (const double step : {1.0, 2.0, 5.0})
    if (step * power >= rough) return step * power;
  return 10 * power;
}

std::string label(double x, double y, const std::string& text, const char* anchor = "middle") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, escaped(text));
}

/// The frame of a panel with the ticks of seconds below it.
std::string frame(double left, double most, const char* title) {
  std::string out = fmt::format("<rect x=\"{}\" y=\"{}\" width=\"{}\" height=\"{}\" fill=\"none\" stroke=\"#888\"/>\n", left, kTop, kWidth, kHeight);
  out += label(left + kWidth / 2, kTop - 10, title);
  const double step = tick(most);
  for (int i = 0; double(i) * step <= most * 1.0001; ++i) {
    const double x = left + double(i) * step / most * kWidth;
    out += fmt::format("<line x1=\"{0:.1f}\" y1=\"{1}\" x2=\"{0:.1f}\" y2=\"{2}\" stroke=\"#ddd\"/>\n", x, kTop, kTop + kHeight);
    out += label(x, kTop + kHeight + 16, fmt::format("{:g} s", double(i) * step));
  }
  return out;
}

std::string bars(const ServeRun& run, double left, double most) {
  std::string out;
  const double row = kHeight / double(std::max<size_t>(1, run.records.size()));
  const auto bar = [&](size_t i, double from, double to, const char* colour) {
    out += fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"/>\n", left + from / most * kWidth, kTop + double(i) * row,
                       std::max(0.0, to - from) / most * kWidth, row * 0.85, colour);
  };
  for (size_t i = 0; i < run.records.size(); ++i) {
    const RequestRecord& r = run.records[i];
    if (!r.sent) continue;
    if (!r.completed()) {
      bar(i, r.start, r.start + r.latency, kFailed);
      continue;
    }
    bar(i, r.start, r.start + r.ttft, kWait);
    bar(i, r.start + r.ttft, r.start + r.latency, kTokens);
  }
  return out;
}

std::string curve(std::vector<double> values, double left, double most, const char* colour) {
  std::sort(values.begin(), values.end());
  std::string points = fmt::format("{:.1f},{:.1f}", left, kTop + kHeight);
  const double n = double(values.size());
  for (size_t i = 0; i < values.size(); ++i)
    for (const double share : {double(i) / n, double(i + 1) / n}) points += fmt::format(" {:.1f},{:.1f}", left + values[i] / most * kWidth, kTop + kHeight * (1 - share));
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points, colour);
}

}  // namespace

std::string serve_svg(const ServeRun& run) {
  std::vector<double> first, whole;
  double end = 0;
  for (const RequestRecord& r : run.records) {
    if (r.sent) end = std::max(end, r.start + r.latency);
    if (!r.completed()) continue;
    first.push_back(r.ttft);
    whole.push_back(r.latency);
  }
  const double second = kLeft + kWidth + kGap, longest = whole.empty() ? 1 : std::max(1e-6, *std::max_element(whole.begin(), whole.end()));
  end = std::max(end, 1e-6);
  std::string out = fmt::format("<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} {1}\" font-family=\"sans-serif\" font-size=\"12\">\n"
                                "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n", second + kWidth + 40, kTop + kHeight + 60);
  out += frame(kLeft, end, "each request: until its first token, then until its end") + bars(run, kLeft, end);
  out += frame(second, longest, "share of the answers within that time");
  for (const int percent : {0, 50, 90, 99}) out += label(second - 6, kTop + kHeight * (1 - percent / 100.0) + 4, fmt::format("{} %", percent), "end");
  out += curve(first, second, longest, kWait) + curve(whole, second, longest, kTokens);
  out += label(second + kWidth - 8, kTop + kHeight - 26, "light: first token", "end") + label(second + kWidth - 8, kTop + kHeight - 10, "dark: whole answer", "end");
  const std::string pace = run.rate > 0 ? fmt::format("{:g} requests a second", run.rate) : fmt::format("{} at a time", run.concurrency);
  out += label(kLeft, kTop + kHeight + 44, fmt::format("{}: {} requests, {}, {}", run.model, run.records.size(), pace, run.time), "start");
  return out + "</svg>\n";
}

}  // namespace isotope::app
