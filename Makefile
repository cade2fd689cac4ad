# SPDX-License-Identifier: MIT
# The commands a newcomer types. Each sets up what it needs (scripts/setup.sh) and builds with CMake.
BUILD ?= build
JOBS  ?= $(shell nproc)

.PHONY: all demo test test-gpu bench site clean

# The `kiln` command, the libraries and the examples.
all:
	@sh scripts/setup.sh build
	@sh scripts/build.sh $(BUILD) $(JOBS)

demo: all
	@$(BUILD)/kiln run kernels/attention/forward.tile --demo

test:
	@sh scripts/setup.sh test
	@sh scripts/build.sh $(BUILD) $(JOBS)
	@sh scripts/test.sh $(BUILD)

# On a machine with a GPU; needs no packages: CMake and cmocka are used where they are.
test-gpu:
	@sh scripts/test_gpu.sh $(BUILD)

bench: all
	@$(BUILD)/kiln bench

# The documentation as pages, in $(BUILD)/site. Needs Python; installs Sphinx in $(BUILD)/site-python if it is not here.
site: all
	@sh scripts/site.sh $(BUILD) --explain

clean:
	rm -rf $(BUILD) $(BUILD)-asan $(BUILD)-tsan $(BUILD)-gpu
