# Command-line tests: part of `make check`; `make check-cli` runs them alone, VALGRIND=1 under valgrind.
# The demo with a stage that is wrong beside one that is right; a student's tree may lack the latter.
DEMO_WRONG := $(if $(STAGE),,$(if $(filter 01_naive,$(STAGES)),$(BUILD)/tests/demo_wrong))
CLI_NEEDS := $(PROGRAMS) $(if $(STAGE),,$(BUILD)/demo) $(DEMO_WRONG)
CHECK_SCRIPTS += tests/cli.sh
CHECK_NEEDS += $(CLI_NEEDS)
export FA_CLI_PROGRAMS = $(PROGRAMS)
export FA_CLI_DEMO = $(if $(STAGE),,$(BUILD)/demo)
export FA_CLI_DEMO_WRONG = $(DEMO_WRONG)
export FA_CLI_SANITIZE = $(filter 1,$(SANITIZE))

$(BUILD)/tests/demo_wrong: $(call objects,common/demo.c tests/demo_wrong.c) $(COMMON_OBJECTS) $(call stage_objects,01_naive)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $^ -o $@ $(LIBS)

.PHONY: check-cli
check-cli: $(CLI_NEEDS)
	@VALGRIND='$(VALGRIND)' sh tests/cli.sh
