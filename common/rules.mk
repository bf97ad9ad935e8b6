# The build. Stages are found by folder, their sources by name: a new file needs no edit here.
#   STAGE=02_tiled_cpu   only this stage          CUDA=0       leave nvcc alone
#   SANITIZE=1           ASan and UBSan           DEBUG=1      -O0 -g, and -G for kernels
#   WERROR=1             warnings are errors      ARCHS="80 90" GPU architectures to build for (the one here; all: five)
#   V=1                  show every command
STAGES := $(sort $(patsubst %/,%,$(dir $(wildcard 0[1-6]_*/stage.c))))
ifdef STAGE
ifeq ($(filter $(STAGE),$(STAGES)),)
$(error there is no stage $(STAGE); the stages are: $(STAGES))
endif
BUILT := $(STAGE)
else
BUILT := $(STAGES)
endif

# Only the rules below: make's own would try to link a program from every file that ends in .c.
MAKEFLAGS += --no-builtin-rules
# As many jobs as there are processors, unless the caller said how many.
ifeq ($(filter -j% --jobserver%,$(MAKEFLAGS)),)
MAKEFLAGS += -j$(shell nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2)
endif
# `$(call say,CC,file)` prints one short line instead of the command.
say = $(if $(V),,@printf '  %-5s %s\n' '$(1)' '$(2)';)

BUILD := build$(if $(filter 1,$(SANITIZE)),/sanitize)$(if $(filter 1,$(DEBUG)),/debug)
OPT := $(if $(filter 1,$(DEBUG)),-O0 -g,$(if $(filter 1,$(SANITIZE)),-O2 -g,-O3))
comma := ,
SANFLAGS := $(if $(filter 1,$(SANITIZE)),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all)
WARN := -Wall -Wextra $(if $(filter 1,$(WERROR)),-Werror)

NVCC := $(if $(filter 0,$(CUDA)),,$(shell command -v nvcc 2>/dev/null))
HAVE_GPU := $(if $(NVCC),1,0)
OPENMP := $(shell printf 'int main(void){return 0;}' | $(CC) -fopenmp -xc - -o /dev/null 2>/dev/null && echo -fopenmp)

# Without OpenMP there is one thread, and its pragmas mean nothing.
WARN += $(if $(OPENMP),,-Wno-unknown-pragmas)

CPPFLAGS += -Icommon -I$(BUILD) -DFA_HAVE_GPU=$(HAVE_GPU)
CFLAGS_ALL = -std=c11 $(OPT) $(WARN) $(SANFLAGS) $(OPENMP) -fPIC -fvisibility=hidden -MMD -MP $(CPPFLAGS) $(CFLAGS)
LIBS = $(SANFLAGS) $(OPENMP) -lm -ldl
LINK := $(CXX)

ifeq ($(HAVE_GPU),1)
# For the GPU that is here; without one for sm_90, since each architecture takes half a minute. Only those this nvcc knows.
CUDA_HOME := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
KNOWN_ARCHS := $(patsubst compute_%,%,$(shell $(NVCC) --list-gpu-arch 2>/dev/null))
ALL_ARCHS := 75 80 90 100 120
ARCHS ?= $(or $(sort $(subst .,,$(shell nvidia-smi --query-gpu=compute_cap --format=csv$(comma)noheader 2>/dev/null | grep '^[0-9.]*$$'))),90)
ARCHS := $(ARCHS)
GENCODE = $(foreach a,$(filter $(if $(filter all,$(ARCHS)),$(ALL_ARCHS),$(ARCHS)),$(KNOWN_ARCHS)),-gencode arch=compute_$(a),code=sm_$(a))
HAVE_CUBLAS := $(if $(wildcard $(CUDA_HOME)/include/cublas_v2.h $(CUDA_HOME)/targets/*/include/cublas_v2.h),1,0)
CPPFLAGS += -DFA_HAVE_CUBLAS=$(HAVE_CUBLAS)
NVFLAGS = -std=c++17 $(if $(filter 1,$(DEBUG)),-G -O0,-O3 -Xptxas -warn-spills) $(GENCODE) --expt-relaxed-constexpr -Wno-deprecated-gpu-targets \
	$(if $(filter 1,$(WERROR)),-Xptxas -Werror --Werror all-warnings) \
	-Xcompiler -fPIC,-fvisibility=hidden,-Wall,-Wextra -MMD -MP $(CPPFLAGS)
CUDA_LIBDIR := $(firstword $(wildcard $(CUDA_HOME)/lib64 $(CUDA_HOME)/targets/*/lib))
LIBS += -L$(CUDA_LIBDIR) -lcudart_static -Wl$(comma)-rpath$(comma)$(CUDA_LIBDIR) -lrt -lpthread
endif

# The emulator: the same .cu files, built by g++. -fsanitize=thread without its library shows every access to the
# emulator (common/emu/access.cpp); vector instructions would merge accesses, and so change what is counted. -g1: lines and
# calls for findings, without variables. Unrolled loops, which clang takes minutes to compile, would blur the lines too.
EMU_CLANG := $(if $(findstring clang,$(shell $(CXX) --version 2>/dev/null)),-fno-unroll-loops -mllvm -pragma-unroll-threshold=16 -Wno-pass-failed)
EMUFLAGS = -std=c++17 -O2 -g1 $(EMU_CLANG) $(WARN) -Wno-unknown-pragmas -fno-tree-vectorize -fno-tree-slp-vectorize \
	-ffp-contract=off -fsanitize=thread -fPIC -fvisibility=hidden -MMD -MP $(CPPFLAGS)
CXXFLAGS_ALL = -std=c++17 $(OPT) $(WARN) $(SANFLAGS) $(OPENMP) -fPIC -fvisibility=hidden -MMD -MP $(CPPFLAGS) $(CXXFLAGS)

# --- what is built --------------------------------------------------------------------------------
PROGRAM_SOURCES := common/main.c common/demo.c
COMMON_SOURCES := $(filter-out $(PROGRAM_SOURCES) %_simd.c,$(wildcard common/*.c)) \
	$(if $(filter 1,$(HAVE_GPU)),$(wildcard common/*.cu))
stage_sources = $(filter-out %_simd.c,$(wildcard $(1)/*.c)) $(if $(filter 1,$(HAVE_GPU)),$(wildcard $(1)/*.cu))
objects = $(patsubst %,$(BUILD)/obj/%.o,$(1))
include common/simd.mk
simd_objects = $(foreach f,$(wildcard $(1)/*_simd.c),$(foreach i,$(ISAS),$(BUILD)/obj/$(f).$(i).o))
# What only a GPU has: its own device, and cuBLAS.
NOT_EMULATED := common/device_gpu.cu 01_naive/cublas.cu
emu_objects = $(patsubst %,$(BUILD)/obj/%.emu.o,$(filter-out $(NOT_EMULATED),$(wildcard $(1)/*.cu)))
COMMON_OBJECTS = $(call objects,$(COMMON_SOURCES)) $(call emu_objects,common) $(call objects,$(wildcard common/emu/*.cpp)) $(call simd_objects,common) \
	$(call simd_objects,common/emu)
stage_objects = $(call objects,$(call stage_sources,$(1))) $(call simd_objects,$(1)) $(call emu_objects,$(1))

PROGRAMS := $(addprefix $(BUILD)/,$(BUILT))
LIBRARIES := $(patsubst %,$(BUILD)/lib%.so,$(BUILT))

.PHONY: FORCE all check demo bench bench-peers plot mutants lint handout help clean
.DELETE_ON_ERROR:
.SECONDARY:
all: $(PROGRAMS) $(LIBRARIES)

# Objects depend on the flags that made them: another compiler, nvcc gone or come, DEBUG on or off. Not on whether warnings
# were errors: seeded bugs are built on these objects, and may warn.
FLAGS = $(filter-out -Xptxas -Werror --Werror all-warnings,$(CC) $(CFLAGS_ALL) $(CXX) $(EMUFLAGS) $(NVCC) $(NVFLAGS))
$(BUILD)/flags: FORCE
	@mkdir -p $(BUILD)
	@printf '%s\n' '$(FLAGS)' | cmp -s - $@ || printf '%s\n' '$(FLAGS)' > $@
FORCE:

$(BUILD)/obj/%.c.o: %.c $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(CFLAGS_ALL) $(CFLAGS_$(<F)) -c $< -o $@
$(BUILD)/obj/%.cpp.o: %.cpp $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,CXX,$<)$(CXX) $(CXXFLAGS_ALL) -c $< -o $@
$(BUILD)/obj/%.cu.emu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,EMU,$<)$(CXX) $(EMUFLAGS) -x c++ -c $< -o $@
$(BUILD)/obj/%.cu.o: %.cu $(BUILD)/flags
	@mkdir -p $(@D)
	$(call say,NVCC,$<)$(NVCC) $(NVFLAGS) -c $< -o $@

# The registry: which stages a program holds.
registry = printf '\#include "stage.h"\n$(foreach s,$(1),extern const fa_stage_t fa_stage_$(s);\n)const fa_stage_t *const fa_stages[] = {$(foreach s,$(1),&fa_stage_$(s), )NULL};\n'
$(BUILD)/registry_%.c:
	@mkdir -p $(@D)
	@$(call registry,$*) > $@
$(BUILD)/registry_all.c: FORCE
	@mkdir -p $(@D)
	@$(call registry,$(STAGES)) | cmp -s - $@ || $(call registry,$(STAGES)) > $@
$(BUILD)/registry_%.o: $(BUILD)/registry_%.c $(BUILD)/flags
	@$(CC) $(CFLAGS_ALL) -c $< -o $@

define simd_rule
$(BUILD)/obj/%_simd.c.$(1).o: %_simd.c $(BUILD)/flags
	@mkdir -p $$(@D)
	$$(call say,CC,$$< for $(1))$(CC) $$(CFLAGS_ALL) $(FLAGS_$(1)) -ffp-contract=fast -DFA_ISA=$(1) -c $$< -o $$@
endef
$(foreach i,$(ISAS),$(eval $(call simd_rule,$(i))))

define stage_rules
$(BUILD)/$(1): $(call objects,common/main.c) $(COMMON_OBJECTS) $(call stage_objects,$(1)) $(BUILD)/registry_$(1).o
	$$(call say,LINK,$$@)$$(LINK) $$^ -o $$@ $$(LIBS)
$(BUILD)/lib$(1).so: $(COMMON_OBJECTS) $(call stage_objects,$(1)) $(BUILD)/registry_$(1).o
	$$(call say,LINK,$$@)$$(LINK) -shared $$^ -o $$@ $$(LIBS)
endef
$(foreach s,$(STAGES),$(eval $(call stage_rules,$(s))))

$(BUILD)/demo: $(call objects,common/demo.c) $(COMMON_OBJECTS) $(foreach s,$(STAGES),$(call stage_objects,$(s))) $(BUILD)/registry_all.o
	$(call say,LINK,$@)$(LINK) $^ -o $@ $(LIBS)

# The stage programs too: the demo's last words send people to them.
demo: $(BUILD)/demo $(PROGRAMS)
	@$(BUILD)/demo

bench: $(PROGRAMS)
	@sh common/bench.sh $(PROGRAMS)

include common/plot.mk
include tests/tests.mk

# cppcheck reads C only; the .cu files are C++17 and have nvcc's and g++'s own warnings.
LINT_FORMAT := $(shell find common 0[1-6]_* tests -name '*.[ch]' -o -name '*.cpp' -o -name '*.cu' -o -name '*.cuh')
lint:
	@clang-format --dry-run --Werror $(LINT_FORMAT)
	@cppcheck --quiet --std=c11 --error-exitcode=1 --inline-suppr --enable=warning,portability,performance \
		--suppress=missingIncludeSystem -Icommon -Itests -DFA_HAVE_GPU=0 -DFA_ISA=baseline $(filter %.c,$(LINT_FORMAT))
	@echo 'lint: clang-format and cppcheck found nothing'

help:
	@printf '%s\n' \
	'make demo                 every step of every stage on one problem: the ladder (no GPU, no nvcc needed)' \
	'make check                all tests, quick tier; STAGE=02_tiled_cpu: only this stage; SLOW=1: everything' \
	'make                      the programs build/STAGE and libraries build/libSTAGE.so; each has --help' \
	'make bench                time of the main steps, with the machine peak beside them' \
	'make bench-peers          the same beside PyTorch (needs PyTorch)' \
	'make plot                 speed and memory against sequence length (needs gnuplot)' \
	'make mutants              seeded bugs, all of which the tests must kill' \
	'make check-orders STAGE=03_fa1_cuda   the emulator in 20 seeded orders of threads and copies' \
	'make handout STAGE=02_tiled_cpu OUT=dir   a student tree with the solutions taken out' \
	'make record-golden        tests/golden, what a GPU gives for each wrapper (needs nvcc and a GPU)' \
	'make lint                 clang-format and cppcheck' \
	'make clean                removes build/' \
	'' \
	'stages: $(STAGES)' \
	'variables: STAGE=... CUDA=0 (no nvcc) SANITIZE=1 DEBUG=1 WERROR=1 ARCHS="80 90" (GPU architectures; all: five)'

clean:
	rm -rf build

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
