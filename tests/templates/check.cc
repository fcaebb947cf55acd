// template_check GOLDENS TEMPLATES: prints what differs from jinja2 in a folder made by make_goldens.py; exits 1 if anything
// does.
#include <cstdio>
#include <filesystem>

#include "goldens.h"

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: template_check GOLDENS TEMPLATES\n"), 2;
  const std::string dir = argv[1];
  using namespace isotope::templates;
  Report all = compare_templates(dir, argv[2]);
  for (const char* name : {"expressions.json", "odd.json", "random.json"}) {
    if (!std::filesystem::exists(dir + "/" + name)) continue;
    Report r = compare_expressions(dir + "/" + name, dir + "/cases.json");
    all.renders += r.renders, all.errors += r.errors;
    all.differences.insert(all.differences.end(), r.differences.begin(), r.differences.end());
  }
  for (const std::string& d : all.differences) std::printf("%s\n", d.c_str());
  std::printf("%d renders, %d of them errors, %zu differ\n", all.renders, all.errors, all.differences.size());
  return all.differences.empty() && all.renders > 0 ? 0 : 1;
}
