// Compares renders with what jinja2 made of the same template and input.
#pragma once

#include <string>
#include <vector>

namespace isotope::templates {

struct Report {
  int renders = 0, errors = 0;            ///< how many cases, and how many of them are errors in the reference
  std::vector<std::string> differences;   ///< one text for each case that differs
};

/// A folder made by make_goldens.py. `templates` holds the NAME.jinja files.
Report compare_templates(const std::string& goldens, const std::string& templates);
/// One file of expressions: [{src, out | error, msg}].
Report compare_expressions(const std::string& file, const std::string& cases_file);

}  // namespace isotope::templates
