# Command-line tests: part of `make check`; `make check-cli` runs them alone, VALGRIND=1 under valgrind.
CLI_NEEDS := $(PROGRAMS) $(if $(STAGE),,$(BUILD)/demo)
CHECK_SCRIPTS += tests/cli.sh
CHECK_NEEDS += $(CLI_NEEDS)
export FA_CLI_PROGRAMS = $(PROGRAMS)
export FA_CLI_DEMO = $(if $(STAGE),,$(BUILD)/demo)
export FA_CLI_SANITIZE = $(filter 1,$(SANITIZE))

.PHONY: check-cli
check-cli: $(CLI_NEEDS)
	@VALGRIND='$(VALGRIND)' sh tests/cli.sh
