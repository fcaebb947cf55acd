"""docs/models.md lists every class of src/models/arch.cc, and no other."""
import pathlib, re, sys

root = pathlib.Path(__file__).resolve().parent.parent
known = {c for line in re.findall(r'\.classes = "([^"]+)"', (root / "src/models/arch.cc").read_text()) for c in line.split()}
known -= {"LLaMAForCausalLM"}  # the old spelling of one that is listed
page = (root / "docs/models.md").read_text()
listed = set(re.findall(r"\b[A-Z]\w+For(?:CausalLM|ConditionalGeneration)\b", page))
if "…ForCausalLM" in page:  # text models of wrappers of the same name
    listed |= {c.replace("ForConditionalGeneration", "ForCausalLM") for c in listed} & known
wrong = [f"{c}: supported, not on the page" for c in sorted(known - listed)] + [f"{c}: on the page, not supported" for c in sorted(listed - known)]
print("\n".join(wrong) or f"{len(known)} classes")
sys.exit(bool(wrong) or len(known) < 50)
