#include "isotope/result.h"

namespace isotope {

std::string Error::message() const {
  std::string s = what;
  if (!source.empty()) s += " (" + source + ")";
  if (!remedy.empty()) s += "; " + remedy;
  return s;
}

}  // namespace isotope
