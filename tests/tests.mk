# The tests. `make check` builds one program of unit tests and one program per stage, runs them all, and
# says in its last line how it ended. `make check STAGE=02_tiled_cpu` builds and runs that stage's alone.
#   SLOW=1               the whole table of cases        SAN=1             a small part, for slow checkers
#   FA_STEP=name         only this step                  FA_CASE=text      only tests with text in their name
#   FA_DEVICE=cpu|gpu    only this device                FA_FAIL_FAST=1    stop at the first suite that fails
#   FA_TIMES=1           seconds of every test
#   CHECK_CFLAGS=..., CHECK_LIBS=...                     where Check is, if pkg-config cannot tell
TEST_RUNNER := tests/runner.c
TEST_UNITS := tests/check_common.c $(wildcard tests/unit_*.c)
TEST_STAGES := tests/check_stage.c tests/jobs.c tests/run_case.c $(wildcard tests/cases*.c tests/suite_*.c)
TEST_ONLY := $(wildcard tests/only_*.c)

# A file tests/only_NAME.c holds what only stage NAME has; the others are linked with only_none.c. tests/only_NAME.cu, where
# there is one, lets it call that stage's device functions: as the emulator's compiler makes them, no kernel around.
only_source = $(firstword $(wildcard tests/only_$(1).c) tests/only_none.c)
only_functions = $(patsubst %,$(BUILD)/obj/%.emu.o,$(wildcard tests/only_$(1).cu))

# The emulator's: vectors and faults. Of their kernels, nvcc builds those of the vectors, for record_golden alone.
TEST_EMU := tests/check_emu.c tests/emu_check.c tests/emu_findings.c tests/emu_orders.c tests/emu_launches.c tests/emu_requests.c
EMU_VECTORS := tests/emu_vectors.c tests/emu_definitions.c tests/emu_golden.c
EMU_KERNELS := tests/emu_wrappers.cu tests/emu_tiles.cu
EMU_FAULTS := $(wildcard tests/emu_faults_*.cu) tests/emu_orders.cu tests/emu_requests.cu

TEST_PROGRAMS := $(if $(STAGE),,$(BUILD)/tests/check_common $(BUILD)/tests/check_emu) $(addprefix $(BUILD)/tests/check_,$(BUILT))

# What else `make check` runs: scripts that get the same treatment as the programs above (exit status 0 or
# not, and a line "NAME CHECKS SUITES FAILED REFUSED" appended to the file $FA_TOTALS), and what they need.
CHECK_SCRIPTS := tests/build_rules.sh
CHECK_NEEDS :=
-include tests/mutants.mk tests/cli.mk tests/peers/peers.mk

# Check's own flags are looked up when they are needed, because `make check` may have to install it first.
$(BUILD)/check.libs: FORCE
	@mkdir -p $(@D)
	@CC='$(CC)' CHECK_CFLAGS='$(CHECK_CFLAGS)' CHECK_LIBS='$(CHECK_LIBS)' sh tests/find_check.sh $(BUILD)

TEST_SOURCES := $(TEST_RUNNER) $(TEST_UNITS) $(TEST_EMU) $(TEST_STAGES) $(TEST_ONLY)
$(foreach f,$(notdir $(TEST_SOURCES)),$(eval CFLAGS_$(f) = -I. -Itests $$$$(cat $(BUILD)/check.cflags)))
$(call objects,$(TEST_SOURCES)): | $(BUILD)/check.libs

test_link = @mkdir -p $(@D) && $(LINK) $(filter %.o,$^) -o $@ $$(cat $(BUILD)/check.libs) $(LIBS)
$(BUILD)/tests/check_common: $(call objects,$(TEST_RUNNER) $(TEST_UNITS)) $(COMMON_OBJECTS)
	$(test_link)
# Findings must name places whatever the sources' folder is called.
$(patsubst %,$(BUILD)/obj/%.emu.o,$(EMU_FAULTS)): private EMUFLAGS += "-fdebug-prefix-map=$(CURDIR)=/it's (a) folder"
$(BUILD)/tests/check_emu: $(call objects,$(TEST_RUNNER) $(TEST_EMU) $(EMU_VECTORS)) $(COMMON_OBJECTS) \
		$(patsubst %,$(BUILD)/obj/%.emu.o,$(EMU_KERNELS) $(EMU_FAULTS))
	$(test_link)
define check_rule
$(BUILD)/tests/check_$(1): $(call objects,$(TEST_RUNNER) $(TEST_STAGES) $(call only_source,$(1))) \
		$(COMMON_OBJECTS) $(call stage_objects,$(1)) $(call only_functions,$(1)) $(BUILD)/registry_$(1).o
	$$(test_link)
endef
$(foreach s,$(STAGES),$(eval $(call check_rule,$(s))))

check: $(TEST_PROGRAMS) $(CHECK_NEEDS)
	@CC='$(CC)' CFLAGS_ALL='$(CFLAGS_ALL)' FA_SLOW='$(SLOW)' FA_SAN='$(SAN)' \
		sh tests/run.sh $(BUILD)/tests $(TEST_PROGRAMS) $(CHECK_SCRIPTS)

# The emulator's answers as a GPU gives them. Needs nvcc and a GPU, not Check; without them it ends with status 3.
$(BUILD)/tests/record_golden: $(call objects,tests/record_golden.c $(EMU_VECTORS) $(if $(filter 1,$(HAVE_GPU)),$(EMU_KERNELS))) \
		$(COMMON_OBJECTS)
	@mkdir -p $(@D)
	$(call say,LINK,$@)$(LINK) $^ -o $@ $(LIBS)
record-golden: $(BUILD)/tests/record_golden
	@mkdir -p tests/golden && $<
.PHONY: record-golden

# Twenty seeded orders of threads and copies beside the late and the early one, for all cases that are emulated.
.PHONY: check-orders
check-orders: $(foreach s,$(BUILT),$(BUILD)/tests/check_$(s))
	@for s in $(BUILT); do \
		FA_ORDERS=20 FA_CASE=.orders FA_DEVICE=emu CK_TIMEOUT_MULTIPLIER=10 $(BUILD)/tests/check_$$s || bad=1; \
	done; [ -z "$$bad" ]
