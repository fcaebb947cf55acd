# Everything a newcomer needs. Only Debian 12's make and root (or sudo) are assumed; `make run` brings the rest.
SHELL := /bin/bash
JOBS ?= $(shell nproc)
PROMPT ?= Explain in one sentence why the sky is blue.
MODEL ?= smollm2-135m
PORT ?= 8000
# Taken as written and handed on through the environment: neither make nor a shell reads into them.
override PROMPT := $(value PROMPT)
override MODEL := $(value MODEL)
export PROMPT MODEL

.PHONY: help run serve build build-all test check-long install deps model clean docs
help:            ## this list
	@grep -hE '^[a-z-]+: .*##|^[a-z-]+:  *##' $(MAKEFILE_LIST) | sed 's/:[^#]*##/\t/'

deps:            ## install missing Debian packages (packages.txt)
	@scripts/install-packages

build: deps      ## build/release/isotope
	@cmake --preset release > build/configure.log 2>&1 || { cat build/configure.log; exit 1; }
	@cmake --build --preset release -j $(JOBS) --target isotope

build-all: build # the tests as well
	@cmake --build --preset release -j $(JOBS)

model: deps      ## fetch the built-in model into the user's cache (nothing to do when MODEL is a path)
	@if [ ! -e "$$MODEL" ]; then scripts/fetch-model "$$MODEL" > /dev/null; fi

run: build model ## answer PROMPT, then chat when on a terminal; MODEL is a built-in name or a path
	@build/release/isotope run --seed 1 --prompt="$$PROMPT" --model="$$MODEL"
	@if [ -t 0 ] && [ -t 1 ] && [ "$$MODEL" != gemma3-270m ]; then build/release/isotope run --model="$$MODEL"; fi

serve: build model ## the OpenAI-compatible server on PORT
	@build/release/isotope serve --model="$$MODEL" --port $(PORT)

test: build-all  ## build and run all tests
	@scripts/fetch-model smollm2-135m && scripts/fetch-model gemma3-270m
	@cd build/release && ctest --output-on-failure -j $(JOBS)

check-long: build-all ## what is too long for CI: fuzzing, sanitizers, perplexity against llama.cpp, fresh goldens
	@scripts/check-long

install: build   ## install into PREFIX (default /usr/local)
	@cmake --install build/release $(if $(PREFIX),--prefix $(PREFIX))

docs: build      ## regenerate generated pages
	@build/release/isotope levers --md > docs/levers.md

clean:           ## remove build outputs
	rm -rf build
